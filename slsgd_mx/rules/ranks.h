/* The algorithm of ranks.c, for one set of instructions (TARGET); NAME makes its names unique.
 *
 * A tile is the values of k rows at LANES coordinates, padded with rows of +infinity to a power of
 * two.  Values become integers in the same order, which every compiler turns into vectors of
 * minimum and maximum.  A network sorts the rows of a tile: groups of 16 in registers, then merges
 * of two sorted runs, whose comparators are applied three layers at a time to 8 rows in registers.
 */

/* An integer for a float, in the same order: -0.0 is just below 0.0, and NaN is +infinity. */
static TARGET INLINE int32_t NAME(key)(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits & INT32_MAX) > 0x7f800000 ? 0x7f800000 : bits;
    return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

static TARGET INLINE double NAME(value)(int32_t key) {
    int32_t bits = key ^ (int32_t)((uint32_t)(key >> 31) >> 1);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#ifndef ORDER
#define ORDER(a, b)                     \
    {                                   \
        int32_t least = a < b ? a : b;  \
        b = a < b ? b : a;              \
        a = least;                      \
    }
#define C(i, j) if (j < n) ORDER(x##i, x##j)
#define LOAD(i) int32_t x##i = i < n ? x[i * LANES + c] : 0;
#define STORE(i) if (i < n) x[i * LANES + c] = x##i;
#define FOR_ROWS(M) \
    M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)
#endif

/* Sort n <= 16 rows with Batcher's merge exchange; n is known when this is compiled. */
static TARGET INLINE void NAME(sort_few)(int32_t *x, const int n) {
    EACH_COORDINATE
    for (int c = 0; c < LANES; c++) {
        FOR_ROWS(LOAD)
        C(0, 8) C(1, 9) C(2, 10) C(3, 11) C(4, 12) C(5, 13) C(6, 14) C(7, 15)
        C(0, 4) C(1, 5) C(2, 6) C(3, 7) C(8, 12) C(9, 13) C(10, 14) C(11, 15)
        C(4, 8) C(5, 9) C(6, 10) C(7, 11)
        C(0, 2) C(1, 3) C(4, 6) C(5, 7) C(8, 10) C(9, 11) C(12, 14) C(13, 15)
        C(2, 8) C(3, 9) C(6, 12) C(7, 13)
        C(2, 4) C(3, 5) C(6, 8) C(7, 9) C(10, 12) C(11, 13)
        C(0, 1) C(2, 3) C(4, 5) C(6, 7) C(8, 9) C(10, 11) C(12, 13) C(14, 15)
        C(1, 8) C(3, 10) C(5, 12) C(7, 14)
        C(1, 4) C(3, 6) C(5, 8) C(7, 10) C(9, 12) C(11, 14)
        C(1, 2) C(3, 4) C(5, 6) C(7, 8) C(9, 10) C(11, 12) C(13, 14)
        FOR_ROWS(STORE)
    }
}

static TARGET void NAME(sort_leaf)(int32_t *x, ptrdiff_t n) {
    switch (n) {
        case 1: return;
        case 2: NAME(sort_few)(x, 2); return;
        case 3: NAME(sort_few)(x, 3); return;
        case 4: NAME(sort_few)(x, 4); return;
        case 5: NAME(sort_few)(x, 5); return;
        case 6: NAME(sort_few)(x, 6); return;
        case 7: NAME(sort_few)(x, 7); return;
        case 8: NAME(sort_few)(x, 8); return;
        case 9: NAME(sort_few)(x, 9); return;
        case 10: NAME(sort_few)(x, 10); return;
        case 11: NAME(sort_few)(x, 11); return;
        case 12: NAME(sort_few)(x, 12); return;
        case 13: NAME(sort_few)(x, 13); return;
        case 14: NAME(sort_few)(x, 14); return;
        case 15: NAME(sort_few)(x, 15); return;
        default: NAME(sort_few)(x, 16); return;
    }
}

/* Three layers of a merge on 8 rows: first[0], first[step], ... and last[0], last[step], ...
 * The first layer of a merge compares row i with row i from the end, the others rows at half of,
 * a quarter of, ... the length. */
static TARGET INLINE void NAME(three_layers)(int32_t *first, int32_t *last, ptrdiff_t step,
                                             const int mirrored) {
    int32_t *p1 = first + step, *p2 = p1 + step, *p3 = p2 + step;
    int32_t *p5 = last + step, *p6 = p5 + step, *p7 = p6 + step;
    EACH_COORDINATE
    for (int c = 0; c < LANES; c++) {
        int32_t x0 = first[c], x1 = p1[c], x2 = p2[c], x3 = p3[c];
        int32_t x4 = last[c], x5 = p5[c], x6 = p6[c], x7 = p7[c];
        if (mirrored) {
            ORDER(x0, x7) ORDER(x1, x6) ORDER(x2, x5) ORDER(x3, x4)
        } else {
            ORDER(x0, x4) ORDER(x1, x5) ORDER(x2, x6) ORDER(x3, x7)
        }
        ORDER(x0, x2) ORDER(x1, x3) ORDER(x4, x6) ORDER(x5, x7)
        ORDER(x0, x1) ORDER(x2, x3) ORDER(x4, x5) ORDER(x6, x7)
        first[c] = x0, p1[c] = x1, p2[c] = x2, p3[c] = x3;
        last[c] = x4, p5[c] = x5, p6[c] = x6, p7[c] = x7;
    }
}

/* The last two and the last four layers of a merge, on 4 and on 16 neighbouring rows. */
static TARGET void NAME(last_two_layers)(int32_t *x) {
    const int n = 4;
    EACH_COORDINATE
    for (int c = 0; c < LANES; c++) {
        LOAD(0) LOAD(1) LOAD(2) LOAD(3)
        C(0, 2) C(1, 3) C(0, 1) C(2, 3)
        STORE(0) STORE(1) STORE(2) STORE(3)
    }
}

static TARGET void NAME(last_four_layers)(int32_t *x) {
    const int n = 16;
    EACH_COORDINATE
    for (int c = 0; c < LANES; c++) {
        FOR_ROWS(LOAD)
        C(0, 8) C(1, 9) C(2, 10) C(3, 11) C(4, 12) C(5, 13) C(6, 14) C(7, 15)
        C(0, 4) C(1, 5) C(2, 6) C(3, 7) C(8, 12) C(9, 13) C(10, 14) C(11, 15)
        C(0, 2) C(1, 3) C(4, 6) C(5, 7) C(8, 10) C(9, 11) C(12, 14) C(13, 15)
        C(0, 1) C(2, 3) C(4, 5) C(6, 7) C(8, 9) C(10, 11) C(12, 13) C(14, 15)
        FOR_ROWS(STORE)
    }
}

/* Sort a bitonic run of n = 4, 8, 16, ... rows, unless it has no rank in [low, high). */
static TARGET void NAME(sort_bitonic)(int32_t *x, ptrdiff_t at, ptrdiff_t n, ptrdiff_t low,
                                      ptrdiff_t high) {
    if (at + n <= low || at >= high) return;
    int32_t *run = x + at * LANES;
    if (n == 4) {
        NAME(last_two_layers)(run);
    } else if (n == 16) {
        NAME(last_four_layers)(run);
    } else {
        ptrdiff_t step = n / 8 * LANES;
        for (ptrdiff_t i = 0; i < step; i += LANES)
            NAME(three_layers)(run + i, run + i + 4 * step, step, 0);
        for (ptrdiff_t j = 0; n > 8 && j < 8; j++)
            NAME(sort_bitonic)(x, at + j * (n / 8), n / 8, low, high);
    }
}

/* Sort rows at, ..., at + n - 1, of which those from k on are padding; ranks outside [low, high)
 * are not needed.  One half after the other, so that the values stay in the nearest cache. */
static TARGET void NAME(sort)(int32_t *x, ptrdiff_t at, ptrdiff_t n, ptrdiff_t k, ptrdiff_t low,
                              ptrdiff_t high) {
    if (n == LEAF) {
        NAME(sort_leaf)(x + at * LANES, k - at < LEAF ? k - at : LEAF);
        return;
    }
    NAME(sort)(x, at, n / 2, k, 0, k);
    if (at + n / 2 >= k) return;
    NAME(sort)(x, at + n / 2, n / 2, k, 0, k);
    int32_t *first = x + at * LANES, *end = first + n * LANES;
    ptrdiff_t step = n / 8 * LANES;
    for (ptrdiff_t i = 0; i < step; i += LANES)
        NAME(three_layers)(first + i, end - LANES - i - 3 * step, step, 1);
    for (ptrdiff_t j = 0; j < 8; j++)
        NAME(sort_bitonic)(x, at + j * (n / 8), n / 8, low, high);
}

/* total = 0.0 + x[low] + ... + x[high - 1], added in this order, by coordinate; never -0.0. */
static TARGET INLINE void NAME(sum)(const int32_t *x, ptrdiff_t low, ptrdiff_t high,
                                    double *total) {
    double sum[LANES] = {0};
    for (ptrdiff_t r = low; r < high; r++)
        for (int c = 0; c < LANES; c++) sum[c] += NAME(value)(x[r * LANES + c]);
    memcpy(total, sum, sizeof sum);
}

/* Move the values nearest to the centre to rows 0, ..., nearest - 1, as medians.py does. */
static TARGET void NAME(choose_nearest)(const task *job, int32_t *x) {
    double twice[LANES], count = (double)(job->k - 2 * job->trimmed);
    NAME(sum)(x, job->trimmed, job->k - job->trimmed, twice);
    for (int c = 0; c < LANES; c++) twice[c] *= 2.0;
    for (ptrdiff_t s = 0; s < job->k - job->nearest; s++) {
        const int32_t *below = x + s * LANES, *above = below + job->nearest * LANES;
        int32_t *slot = x + s % job->nearest * LANES;
        EACH_COORDINATE
        for (int c = 0; c < LANES; c++) {
            double pair = (NAME(value)(below[c]) + NAME(value)(above[c])) * count;
            slot[c] = pair < twice[c] ? above[c] : slot[c];
        }
    }
}

/* Read n <= TILES * LANES coordinates of every row. */
static TARGET void NAME(load)(const task *job, int64_t start, ptrdiff_t n, int32_t *tiles) {
    ptrdiff_t tile = job->padded * LANES;
    for (ptrdiff_t r = 0; r < job->k; r++) {
        const float *row = job->rows[r] + start;
        int32_t *x = tiles + r * LANES;
        if (n == TILES * LANES) {
            for (int t = 0; t < TILES; t++) {
                EACH_COORDINATE
                for (int c = 0; c < LANES; c++) x[t * tile + c] = NAME(key)(row[t * LANES + c]);
            }
        } else {
            for (ptrdiff_t c = 0; c < n; c++) x[c / LANES * tile + c % LANES] = NAME(key)(row[c]);
        }
    }
}

/* Write n <= LANES results of one tile. */
static TARGET void NAME(reduce)(const task *job, int32_t *x, ptrdiff_t n, float *out) {
    ptrdiff_t low = job->trimmed, high = job->k - job->trimmed;
    double total[LANES];
    float mean[LANES];
    if (job->nearest) {
        NAME(sort)(x, 0, job->padded, job->k, 0, job->k);
        NAME(choose_nearest)(job, x);
        low = 0, high = job->nearest;
    } else {
        NAME(sort)(x, 0, job->padded, job->k, low, high);
    }
    NAME(sum)(x, low, high, total);
    double share = 1.0 / (double)(high - low);
    for (int c = 0; c < LANES; c++) mean[c] = (float)(total[c] * share);
    memcpy(out, mean, (size_t)n * sizeof(float));
}

static TARGET void NAME(run)(const task *job, int64_t start, int64_t stop, int32_t *tiles,
                             float *out) {
    for (int64_t at = start; at < stop; at += TILES * LANES) {
        ptrdiff_t n = stop - at < TILES * LANES ? (ptrdiff_t)(stop - at) : TILES * LANES;
        NAME(load)(job, at, n, tiles);
        for (ptrdiff_t c = 0; c < n; c += LANES)
            NAME(reduce)(job, tiles + c * job->padded, n - c < LANES ? n - c : LANES, out + at + c);
    }
}
