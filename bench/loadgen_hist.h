/* A histogram of durations: 64 steps to each power of two, so that a percentile is within 1.6 % of the sample that it stands for.
 *
 * Knows: counting. Must not know: what is measured.
 */
#ifndef LOADGEN_HIST_H
#define LOADGEN_HIST_H

#include <stdint.h>
#include <string.h>

enum { HIST_STEPS = 64, HIST_STEP_BITS = 6, HIST_SIZE = (64 - HIST_STEP_BITS + 1) * HIST_STEPS };

struct hist {
    uint64_t counts[HIST_SIZE];
    uint64_t total;
    uint64_t max_ns;
};

static inline void hist_reset(struct hist *h) { memset(h, 0, sizeof *h); }

static inline void hist_add(struct hist *h, uint64_t ns) {
    unsigned place = (unsigned)ns;
    if (ns >= HIST_STEPS) {
        unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - HIST_STEP_BITS;
        place = (shift + 1) * HIST_STEPS + (unsigned)(ns >> shift & (HIST_STEPS - 1));
    }
    h->counts[place]++;
    h->total++;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

/* The middle of the step in which the given share of the samples is reached; 0 without samples. */
static inline double hist_percentile_ns(const struct hist *h, double share) {
    uint64_t wanted = (uint64_t)(share * (double)h->total);
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_SIZE; i++) {
        seen += h->counts[i];
        if (seen <= wanted)
            continue;
        if (i < HIST_STEPS)
            return (double)i;
        unsigned shift = i / HIST_STEPS - 1;
        double low = (double)((uint64_t)(HIST_STEPS + i % HIST_STEPS) << shift);
        return low + (double)(1ull << shift) / 2;
    }
    return (double)h->max_ns;
}

#endif
