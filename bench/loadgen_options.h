/* The command line of the load generator, and how it ends when something is wrong.
 *
 * Knows: option names and ranges. Must not know: what a run does with them.
 */
#ifndef LOADGEN_OPTIONS_H
#define LOADGEN_OPTIONS_H

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "loadgen_wire.h"

enum { PHASES_MAX = 16, RID_SLOT_BITS = 16 };

struct phase {
    enum kind kind;
    uint64_t duration_ns;
};

static const char *const KINDS[] = {[ECHO] = "echo", [ACQUIRE] = "acquire", [RENEW] = "renew", [RELEASE] = "release"};

static struct {
    struct sockaddr_in address;
    unsigned connections, in_flight;
    struct phase phases[PHASES_MAX];
    unsigned phase_count;
    uint64_t warmup_ns, lease_ms, held_max;
} options = {.connections = 1, .in_flight = 1, .warmup_ns = 200000000, .lease_ms = 600000, .held_max = 3000000};

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *need(void *memory) {
    if (memory == NULL)
        die("out of memory");
    return memory;
}

static uint64_t number_of(const char *text, const char *what, uint64_t least, uint64_t most) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value < least || value > most)
        die("%s %s is not a number from %" PRIu64 " to %" PRIu64, what, text, least, most);
    return value;
}

static void read_phase(char *text) {
    char *colon = strchr(text, ':');
    if (colon == NULL || options.phase_count == PHASES_MAX)
        die("--phase %s: write kind:milliseconds, %d times at most", text, PHASES_MAX);
    *colon = 0;
    struct phase *phase = &options.phases[options.phase_count++];
    phase->duration_ns = number_of(colon + 1, "--phase", 1, 3600000) * 1000000;
    for (unsigned kind = ECHO; kind <= RELEASE; kind++)
        if (strcmp(text, KINDS[kind]) == 0) {
            phase->kind = (enum kind)kind;
            if ((kind == ECHO) != (options.phases[0].kind == ECHO))
                die("echo does not mix with other kinds");
            return;
        }
    die("--phase %s: the kinds are echo, acquire, renew and release", text);
}

static void read_address(char *text) {
    char *colon = strrchr(text, ':');
    if (colon == NULL)
        die("--connect %s: write host:port", text);
    *colon = 0;
    options.address.sin_family = AF_INET;
    options.address.sin_port = htons((uint16_t)number_of(colon + 1, "port", 1, 65535));
    if (inet_pton(AF_INET, text, &options.address.sin_addr) != 1)
        die("--connect %s: an IPv4 address is needed", text);
}

static void read_options(int argc, char **argv) {
    static const struct option names[] = {{"connect", 1, 0, 'c'},   {"connections", 1, 0, 'n'}, {"in-flight", 1, 0, 'k'},
                                          {"phase", 1, 0, 'p'},     {"warmup-ms", 1, 0, 'w'},   {"lease-ms", 1, 0, 'l'},
                                          {"held-max", 1, 0, 'h'}, {0, 0, 0, 0}};
    int name;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (name == 'c')
            read_address(optarg);
        else if (name == 'n')
            options.connections = (unsigned)number_of(optarg, "--connections", 1, 10000);
        else if (name == 'k')
            options.in_flight = (unsigned)number_of(optarg, "--in-flight", 1, (1u << RID_SLOT_BITS) - 1);
        else if (name == 'p')
            read_phase(optarg);
        else if (name == 'w')
            options.warmup_ns = number_of(optarg, "--warmup-ms", 0, 60000) * 1000000;
        else if (name == 'l')
            options.lease_ms = number_of(optarg, "--lease-ms", 100, 604800000);
        else if (name == 'h')
            options.held_max = number_of(optarg, "--held-max", 1, 16000000);
        else
            exit(2);
    }
    if (optind != argc || options.phase_count == 0 || options.address.sin_port == 0)
        die("--connect HOST:PORT and at least one --phase KIND:MS are needed, and nothing else");
}

#endif
