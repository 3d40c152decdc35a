/* The client protocol as the load generator needs it: request frames from templates, replies read in place.
 *
 * Knows: docs/protocol.md. Must not know: sockets, time, who sends what when.
 */
#ifndef LOADGEN_WIRE_H
#define LOADGEN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum kind { ECHO, ACQUIRE, RENEW, RELEASE };

enum { ECHO_FRAME = 64, TEMPLATE_MAX = 192, NAME_SIZE = 24, NAME_DIGITS = 9 };

/* One lease: the number from which its name and acquisition id are made, and its token. */
struct lease {
    uint64_t number;
    uint64_t token;
};

/* A request frame in which only these fields change from one request to the next; an offset of 0 means that it has no such field. */
struct template {
    uint8_t bytes[TEMPLATE_MAX];
    size_t size;
    size_t rid, id, name, token;
};

static inline uint8_t *put_be(uint8_t *p, uint64_t value, int width) {
    for (int i = width - 1; i >= 0; i--) {
        p[i] = (uint8_t)value;
        value >>= 8;
    }
    return p + width;
}

static inline uint64_t get_be(const uint8_t *p, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; i++)
        value = value << 8 | p[i];
    return value;
}

static inline uint8_t *put_uint(uint8_t *p, uint64_t value) {
    if (value < 0x80)
        return put_be(p, value, 1);
    if (value <= UINT8_MAX)
        return put_be(put_be(p, 0xcc, 1), value, 1);
    if (value <= UINT16_MAX)
        return put_be(put_be(p, 0xcd, 1), value, 2);
    if (value <= UINT32_MAX)
        return put_be(put_be(p, 0xce, 1), value, 4);
    return put_be(put_be(p, 0xcf, 1), value, 8);
}

static inline uint8_t *put_bin(uint8_t *p, const void *data, size_t size) {
    p = put_be(put_be(p, 0xc4, 1), size, 1);
    memcpy(p, data, size);
    return p + size;
}

static inline uint8_t *put_str(uint8_t *p, const char *text) {
    size_t size = strlen(text);
    p = put_be(put_be(p, 0xd9, 1), size, 1);
    memcpy(p, text, size);
    return p + size;
}

/* Reads an unsigned integer of any width; returns where it ends, or NULL. */
static inline const uint8_t *get_uint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
    if (p >= end)
        return NULL;
    if (*p < 0x80) {
        *value = *p;
        return p + 1;
    }
    if (*p < 0xcc || *p > 0xcf)
        return NULL;
    int width = 1 << (*p - 0xcc);
    if (end - p < 1 + width)
        return NULL;
    *value = get_be(p + 1, width);
    return p + 1 + width;
}

/* Builds the template of a kind. ``prefix`` is the first NAME_SIZE - NAME_DIGITS characters of every name of this run. */
static inline void make_template(struct template *t, enum kind kind, uint64_t epoch, const char *prefix, uint64_t seed, uint64_t lease_ms,
                                 const char *node_id) {
    static const int arity[] = {[ACQUIRE] = 9, [RENEW] = 5, [RELEASE] = 5};
    static const int code[] = {[ACQUIRE] = 1, [RENEW] = 3, [RELEASE] = 5};
    uint8_t id[16] = {0}, name[NAME_SIZE];
    memset(t, 0, sizeof *t);
    if (kind == ECHO) {
        memset(t->bytes, 'x', ECHO_FRAME);
        put_be(t->bytes, ECHO_FRAME - 4, 4);
        t->size = ECHO_FRAME;
        t->rid = 4;
        return;
    }
    put_be(id, seed, 8);
    memset(name, '0', sizeof name);
    memcpy(name, prefix, NAME_SIZE - NAME_DIGITS);
    uint8_t *p = put_be(t->bytes + 4, 0x93, 1);
    p = put_be(p, 0xcf, 1);
    t->rid = (size_t)(p - t->bytes);
    p = put_uint(p + 8, epoch);
    p = put_be(p, 0x90 | (uint64_t)arity[kind], 1);
    p = put_be(p, (uint64_t)code[kind], 1);
    p = put_bin(p, id, sizeof id);
    t->id = (size_t)(p - t->bytes) - 8;
    p = put_bin(p, name, sizeof name);
    t->name = (size_t)(p - t->bytes) - NAME_DIGITS;
    if (kind == ACQUIRE) {
        p = put_uint(p, lease_ms);
        p = put_be(put_be(put_be(p, 1, 1), 0, 1), 0, 1); /* max_leaders 1, min_ms 0, no session */
        p = put_bin(p, node_id, strlen(node_id));
        p = put_bin(p, "", 0);
    } else {
        p = put_be(p, 0xcf, 1);
        t->token = (size_t)(p - t->bytes);
        p = kind == RENEW ? put_uint(p + 8, lease_ms) : put_be(p + 8, 1, 1); /* outcome 1: completed */
    }
    t->size = (size_t)(p - t->bytes);
    put_be(t->bytes, t->size - 4, 4);
}

/* Writes one request of the template. */
static inline uint8_t *put_request(uint8_t *p, const struct template *t, uint64_t rid, const struct lease *lease) {
    memcpy(p, t->bytes, t->size);
    put_be(p + t->rid, rid, 8);
    if (t->id)
        put_be(p + t->id, lease->number, 8);
    if (t->name) {
        uint64_t number = lease->number;
        for (int i = NAME_DIGITS - 1; i >= 0; i--) {
            p[t->name + (size_t)i] = (uint8_t)"0123456789abcdef"[number & 15];
            number >>= 4;
        }
    }
    if (t->token)
        put_be(p + t->token, lease->token, 8);
    return p + t->size;
}

/* One reply. ``rid`` 0 is a push. ``number`` is what follows the status where that is an unsigned integer. */
struct reply {
    uint64_t rid;
    uint64_t status;
    uint64_t number;
};

static inline bool read_reply(const uint8_t *p, size_t size, enum kind kind, struct reply *reply) {
    const uint8_t *end = p + size;
    reply->status = reply->number = 0;
    if (kind == ECHO) {
        reply->rid = size == ECHO_FRAME - 4 ? get_be(p, 8) : 0;
        return reply->rid != 0;
    }
    if (size < 3 || (p[0] != 0x92 && p[0] != 0x93))
        return false;
    p = get_uint(p + 1, end, &reply->rid);
    if (p == NULL || p >= end || (*p & 0xf0) != 0x90)
        return false;
    if (reply->rid == 0)
        return true;
    bool more = (*p & 0x0f) > 1;
    p = get_uint(p + 1, end, &reply->status);
    if (p == NULL)
        return false;
    if (more)
        get_uint(p, end, &reply->number);
    return true;
}

#endif
