/* Trimmed mean and mean of the values nearest to a centre, on every coordinate of k rows.
 *
 * slsgd_mx/rules/compiled.py calls this library through ctypes, which releases the interpreter
 * lock.  The results have the bits of the NumPy path (trimmed_mean.py, medians.py): NaN ranks as
 * +infinity, and sums are in float64, in the same order.  ranks.h holds the algorithm; it is
 * compiled once for each set of instructions, and the CPU decides which one runs.
 */

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "sums must be rounded to float64 after every addition; the NumPy path is used instead"
#endif

#define VERSION 1 /* of this interface: compiled.py expects the same number */
#define LANES 16  /* coordinates that are sorted together: one cache line of a row */
#define TILES 4   /* loaded together: every row is read in pieces of 256 bytes */
#define LEAF 16   /* rows that are sorted in registers */

/* The iterations of a loop over coordinates do not depend on each other. */
#ifdef __clang__
#define EACH_COORDINATE _Pragma("clang loop vectorize(assume_safety)")
#else
#define EACH_COORDINATE _Pragma("GCC ivdep")
#endif
#define INLINE inline __attribute__((always_inline))

/* What to compute: Trmean_trimmed or, unless nearest is 0, the mean of so many values around it. */
typedef struct {
    const float *const *rows;
    ptrdiff_t k, padded, trimmed, nearest;
} task;

#define TARGET
#define NAME(name) name##_baseline
#include "ranks.h"
#undef TARGET
#undef NAME

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(name) name##_avx2
#include "ranks.h"
#undef TARGET
#undef NAME

#define TARGET __attribute__((target("avx512f")))
#define NAME(name) name##_avx512
#include "ranks.h"
#undef TARGET
#undef NAME
#endif

int ranks_version(void) { return VERSION; }

/* The best variant for this CPU: 0 (baseline), 1 (AVX2) or 2 (AVX-512); lower ones run too. */
int ranks_best(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return 2;
    if (__builtin_cpu_supports("avx2")) return 1;
#endif
    return 0;
}

/* Write out[start], ..., out[stop - 1]; return 0, or 1 if there is not enough memory. */
int ranks_run(int variant, const float *const *rows, int64_t k, int64_t trimmed, int64_t nearest,
              int64_t start, int64_t stop, float *out) {
    task job = {rows, k, LEAF, trimmed, nearest};
    while (job.padded < job.k) job.padded *= 2;
    size_t count = (size_t)job.padded * LANES * TILES;
    void *memory = malloc(count * sizeof(int32_t) + 64);
    if (memory == NULL) return 1;
    int32_t *tiles = (int32_t *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    for (size_t i = 0; i < count; i++) tiles[i] = INT32_MAX; /* rows from k on stay last */
#if defined(__x86_64__)
    if (variant == 2) run_avx512(&job, start, stop, tiles, out);
    else if (variant == 1) run_avx2(&job, start, stop, tiles, out);
    else
#endif
        run_baseline(&job, start, stop, tiles, out);
    free(memory);
    return 0;
}
