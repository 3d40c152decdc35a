/* Load for a raft leader or an echo server: N connections, K requests in flight on each, closed loop, one thread.
 *
 * Knows: sockets, epoll, the phases of a run. Must not know: msgpack (loadgen_wire.h), counting (loadgen_hist.h), the command
 * line (loadgen_options.h).
 *
 * A reply makes its place in flight free and the next request is written in the same turn, so that a burst read at once is answered by one
 * write. Latency counts from the turn in which a request was written to the turn in which its reply was read. What the generator itself
 * takes of a core is printed as client_cpu: near 1 it would be the bottleneck.
 *
 *   loadgen --connect 127.0.0.1:7101 --connections 16 --in-flight 625 --phase acquire:800 --phase renew:800 --phase release:60000
 *
 * Phases run one after the other on the same connections, each for the given milliseconds after the warm-up. acquire takes names that
 * nobody holds; renew goes round the leases that acquire got; release gives them back, and ends early when none is left; echo is for
 * bench/echo.py, without a handshake. The result is one JSON array on standard output; exit status 1 and one line on standard error if a
 * reply is anything but success.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "loadgen_hist.h"
#include "loadgen_options.h"
#include "loadgen_wire.h"

enum { EVENTS_MAX = 1024, INPUT_SIZE = 256 * 1024, SILENCE_MAX_S = 15 };

struct slot {
    uint64_t rid; /* 0: nothing is in flight here */
    uint64_t sent_ns;
    struct lease lease;
};

struct conn {
    int fd;
    bool waits_for_room; /* the kernel's buffer is full: EPOLLOUT is asked for */
    uint64_t turns;      /* requests sent; a request id is this number and the place in flight, so none is used twice */
    struct slot *slots;
    uint8_t *in;
    size_t in_size;
    uint8_t *out;
    size_t out_at, out_size;
    struct lease *held;
    size_t held_count, held_room, held_next;
};

static struct {
    int epoll;
    struct conn *conns;
    uint64_t epoch, seed, now_ns, next_number, held_total, pushes, ops, busy;
    bool issuing; /* places that become free are used again */
    bool dry;     /* issuing ended before its time: nothing is left to release, or enough is held */
    uint64_t dry_ns;
    struct template template;
    enum kind kind;
    struct hist hist;
} run;

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Handshake: blocking, frame by frame. */

static void send_frame(int fd, uint8_t *frame, const uint8_t *end) {
    put_be(frame, (uint64_t)(end - frame - 4), 4);
    if (send(fd, frame, (size_t)(end - frame), MSG_NOSIGNAL) != end - frame)
        die("handshake: %s", strerror(errno));
}

static size_t receive_frame(int fd, uint8_t *payload, size_t room) {
    uint8_t head[4];
    if (recv(fd, head, 4, MSG_WAITALL) != 4)
        die("handshake: the connection ended or nothing came in time");
    size_t size = (size_t)get_be(head, 4);
    if (size == 0 || size > room || recv(fd, payload, size, MSG_WAITALL) != (ssize_t)size)
        die("handshake: a frame of %zu bytes", size);
    if (size > 7 && memcmp(payload + 1, "\xa5" "error", 6) == 0)
        die("refused: %.*s", (int)size - 7, payload + 7);
    return size;
}

static void shake_hands(int fd, unsigned number) {
    uint8_t data[4096], incarnation[16] = {0}, nonce[32];
    char node_id[32];
    put_be(put_be(incarnation, run.seed, 8), number, 8);
    memset(nonce, (int)number, sizeof nonce); /* Without a secret the nonce proves nothing. */
    snprintf(node_id, sizeof node_id, "loadgen:%ld", (long)getpid());
    uint8_t *p = put_be(data + 4, 0x98, 1);
    p = put_be(put_str(p, "tenure"), 1, 1);
    p = put_str(p, "client");
    p = put_bin(p, "", 0);
    p = put_str(p, node_id);
    p = put_bin(p, incarnation, sizeof incarnation);
    p = put_bin(p, nonce, sizeof nonce);
    send_frame(fd, data, put_be(p, 0x80, 1));
    receive_frame(fd, data, sizeof data);
    send_frame(fd, data, put_bin(put_be(data + 4, 0x91, 1), "", 0));
    size_t size = receive_frame(fd, data, sizeof data);
    if (size < 4 || data[0] != 0x93 || data[1] != 0 || get_uint(data + 2, data + size, &run.epoch) == NULL)
        die("handshake: the welcome cannot be read");
    if (run.epoch == 0)
        die("this node is not the raft leader: connect to the one that is");
}

static void open_conn(struct conn *c, unsigned number) {
    struct timeval patience = {.tv_sec = 10};
    int yes = 1;
    bool echo = options.phases[0].kind == ECHO;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&options.address, sizeof options.address) < 0)
        die("connection %u: %s", number, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!echo)
        shake_hands(c->fd, number);
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0)
        die("%s", strerror(errno));
    c->slots = need(calloc(options.in_flight, sizeof *c->slots));
    c->in = need(malloc(INPUT_SIZE));
    c->out = need(malloc((size_t)options.in_flight * TEMPLATE_MAX * 2));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(run.epoll, EPOLL_CTL_ADD, c->fd, &event) < 0)
        die("epoll: %s", strerror(errno));
}

/* The loop. */

static void flush(struct conn *c) {
    while (c->out_at < c->out_size) {
        ssize_t sent = send(c->fd, c->out + c->out_at, c->out_size - c->out_at, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            die("send: %s", strerror(errno));
        if (sent < 0)
            break;
        c->out_at += (size_t)sent;
    }
    bool left = c->out_at < c->out_size;
    if (!left)
        c->out_at = c->out_size = 0;
    if (left != c->waits_for_room) {
        struct epoll_event event = {.events = EPOLLIN | (left ? (uint32_t)EPOLLOUT : 0u), .data.ptr = c};
        epoll_ctl(run.epoll, EPOLL_CTL_MOD, c->fd, &event);
        c->waits_for_room = left;
    }
}

static void stop_issuing(void) {
    if (run.issuing) {
        run.issuing = false;
        run.dry = true;
        run.dry_ns = run.now_ns;
    }
}

/* Chooses what to ask for next; false if there is nothing. */
static bool choose(struct conn *c, struct lease *lease) {
    if (run.kind == ACQUIRE) {
        if (run.held_total >= options.held_max) {
            stop_issuing();
            return false;
        }
        lease->number = ++run.next_number;
        run.held_total++;
    } else if (run.kind == RENEW) {
        if (c->held_count == 0)
            return false;
        c->held_next = c->held_next + 1 < c->held_count ? c->held_next + 1 : 0;
        *lease = c->held[c->held_next];
    } else if (run.kind == RELEASE) {
        if (c->held_count == 0) {
            if (run.held_total == 0)
                stop_issuing();
            return false;
        }
        *lease = c->held[--c->held_count];
        run.held_total--;
    }
    return true;
}

static void issue(struct conn *c, uint32_t place) {
    struct slot *slot = &c->slots[place];
    if (!run.issuing || !choose(c, &slot->lease))
        return;
    if (c->out_at > 0) {
        memmove(c->out, c->out + c->out_at, c->out_size - c->out_at);
        c->out_size -= c->out_at;
        c->out_at = 0;
    }
    slot->rid = ++c->turns << RID_SLOT_BITS | place;
    slot->sent_ns = run.now_ns;
    c->out_size = (size_t)(put_request(c->out + c->out_size, &run.template, slot->rid, &slot->lease) - c->out);
    run.busy++;
}

static void keep(struct conn *c, struct lease lease) {
    if (c->held_count == c->held_room) {
        c->held_room = c->held_room ? 2 * c->held_room : 1024;
        c->held = need(realloc(c->held, c->held_room * sizeof *c->held));
    }
    c->held[c->held_count++] = lease;
}

static void complete(struct conn *c, const struct reply *reply) {
    uint32_t place = (uint32_t)(reply->rid & ((1u << RID_SLOT_BITS) - 1));
    if (place >= options.in_flight || c->slots[place].rid != reply->rid)
        die("a reply to request %" PRIu64 ", which is not in flight", reply->rid);
    if (reply->status != 0)
        die("%s answered with status %" PRIu64, KINDS[run.kind], reply->status);
    struct slot *slot = &c->slots[place];
    hist_add(&run.hist, run.now_ns - slot->sent_ns);
    run.ops++;
    slot->rid = 0;
    run.busy--;
    if (run.kind == ACQUIRE)
        keep(c, (struct lease){slot->lease.number, reply->number});
    issue(c, place);
}

static void receive(struct conn *c) {
    ssize_t got = recv(c->fd, c->in + c->in_size, INPUT_SIZE - c->in_size, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("the connection ended: %s", got < 0 ? strerror(errno) : "closed by the other side");
    c->in_size += (size_t)got;
    run.now_ns = clock_ns(CLOCK_MONOTONIC);
    size_t at = 0;
    while (c->in_size - at >= 4) {
        size_t size = (size_t)get_be(c->in + at, 4);
        if (size > INPUT_SIZE - 4)
            die("a frame of %zu bytes", size);
        if (c->in_size - at - 4 < size)
            break;
        struct reply reply;
        if (!read_reply(c->in + at + 4, size, run.kind, &reply))
            die("a reply cannot be read");
        if (reply.rid)
            complete(c, &reply);
        else
            run.pushes++;
        at += 4 + size;
    }
    c->in_size -= at;
    memmove(c->in, c->in + at, c->in_size);
    flush(c);
}

static void turn(void) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(run.epoll, events, EVENTS_MAX, SILENCE_MAX_S * 1000);
    if (count == 0)
        die("nothing came for %d s", SILENCE_MAX_S);
    for (int i = 0; i < count; i++) {
        struct conn *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT)
            flush(c);
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
            receive(c);
    }
}

static double cpu_s(void) { return (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9; }

static void run_phase(const struct phase *phase, bool first) {
    char prefix[NAME_SIZE + 1], node_id[32];
    snprintf(prefix, sizeof prefix, "bench/%08" PRIx32 "/", (uint32_t)run.seed);
    snprintf(node_id, sizeof node_id, "loadgen:%ld", (long)getpid());
    run.kind = phase->kind;
    make_template(&run.template, phase->kind, run.epoch, prefix, run.seed, options.lease_ms, node_id);
    run.issuing = true;
    run.dry = false;
    run.ops = 0;
    hist_reset(&run.hist);
    run.now_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t begun = run.now_ns, warm_until = begun + options.warmup_ns, end = warm_until + phase->duration_ns;
    double cpu_begun = cpu_s();
    bool warm = false;
    for (unsigned i = 0; i < options.connections; i++) {
        for (uint32_t place = 0; place < options.in_flight; place++)
            issue(&run.conns[i], place);
        flush(&run.conns[i]);
    }
    /* What was over before the warm-up was (nothing left to release) is measured from its beginning. */
    while (run.issuing && run.now_ns < end && run.busy > 0) {
        turn();
        if (!warm && run.now_ns >= warm_until) {
            warm = true;
            begun = run.now_ns;
            cpu_begun = cpu_s();
            run.ops = 0;
            hist_reset(&run.hist);
        }
    }
    uint64_t ops = run.ops;
    double seconds = (double)((run.dry ? run.dry_ns : run.now_ns) - begun) / 1e9;
    double cpu = cpu_s() - cpu_begun;
    struct hist *h = &run.hist;
    printf("%s{\"kind\": \"%s\", \"connections\": %u, \"in_flight\": %u, \"seconds\": %.6f, \"ops\": %" PRIu64 ", \"ops_per_s\": %.1f, "
           "\"p50_us\": %.2f, \"p99_us\": %.2f, \"max_us\": %.2f, \"client_cpu\": %.3f, \"held\": %" PRIu64 ", \"pushes\": %" PRIu64 "}",
           first ? "[" : ",\n ", KINDS[phase->kind], options.connections, options.in_flight, seconds, ops,
           seconds > 0 ? (double)ops / seconds : 0.0, hist_percentile_ns(h, 0.5) / 1e3, hist_percentile_ns(h, 0.99) / 1e3,
           (double)h->max_ns / 1e3, seconds > 0 ? cpu / seconds : 0.0, run.held_total, run.pushes);
    run.issuing = false;
    while (run.busy > 0)
        turn();
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    run.seed = clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid() << 40;
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    run.conns = need(calloc(options.connections, sizeof *run.conns));
    for (unsigned i = 0; i < options.connections; i++)
        open_conn(&run.conns[i], i);
    for (unsigned i = 0; i < options.phase_count; i++)
        run_phase(&options.phases[i], i == 0);
    puts("]");
    return 0;
}
