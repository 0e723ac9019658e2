/* Different words, numbered with a hash table, and sorted by their bytes.
 *
 * slsgd_mx/data/numbers.py calls this library through ctypes and owns all memory but the scratch of
 * a sort.  Words are stored one after the other: word i is text[ends[i - 1]] to text[ends[i]].  A
 * place of the table is 0, or 32 bits of a word's hash and its number.  Every text but that of
 * numbers_simplify has 8 more bytes at its end.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 2 /* of this interface: numbers.py expects the same number */
#define STEP 7    /* bytes of a word that are taken at once */
#define FEW 32    /* words that are sorted by insertion */
#define AHEAD 24  /* words whose places are fetched before they are needed */

static const uint64_t PRIME = (UINT64_C(1) << 61) - 1;

int numbers_version(void) { return VERSION; }

/* Copy a text in UTF-8 with other white space; return its new size, which is not larger.
 *
 * signs[b] is written for the byte b, unless it begins a space of sizes[b] > 1 bytes; the low byte
 * of each of odd is written for a space whose three bytes, or two and 0, are its high bytes. */
int64_t numbers_simplify(const uint8_t *raw, int64_t size, const uint8_t *signs,
                         const uint8_t *sizes, const uint32_t *odd, int count, uint8_t *out)
{
    int64_t made = 0;
    for (int64_t i = 0; i < size; i++) {
        const uint8_t byte = raw[i];
        out[made++] = signs[byte];
        if (byte == '\r' && i + 1 < size && raw[i + 1] == '\n')
            made--; /* these two are one line end */
        if (sizes[byte] <= 1 || i + sizes[byte] > size)
            continue;
        const uint32_t last = sizes[byte] == 3 ? raw[i + 2] : 0;
        const uint32_t bytes = (uint32_t)byte << 16 | (uint32_t)raw[i + 1] << 8 | last;
        for (int j = 0; j < count; j++)
            if (odd[j] >> 8 == bytes) {
                out[made - 1] = (uint8_t)odd[j];
                i += sizes[byte] - 1;
                break;
            }
    }
    return made;
}

/* The next bytes of a word, at most STEP, as an integer; the first is the highest of 56 bits. */
static inline uint64_t next_bytes(const uint8_t *bytes, int64_t left)
{
    uint64_t value;
    memcpy(&value, bytes, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    value >>= 8;
    return left >= STEP ? value : value & ~UINT64_C(0) << 8 * (STEP - left);
}

/* A polynomial of the length and the bytes at a random point of a prime field, then mixed with
 * random numbers, so that nobody can write a text whose words crowd together. */
static inline uint64_t hash(const uint8_t *word, int64_t length, const uint64_t random[2])
{
    uint64_t sum = (uint64_t)length;
    for (int64_t i = 0; i < length; i += STEP) {
        unsigned __int128 product = (unsigned __int128)sum * (random[0] & PRIME);
        sum = (uint64_t)(product & PRIME) + (uint64_t)(product >> 61);
        sum += next_bytes(word + i, length - i);
        sum = (sum & PRIME) + (sum >> 61);
    }
    sum = (sum ^ sum >> 32) * (random[1] | 1);
    return (sum ^ sum >> 32) * (random[0] | 1);
}

/* A word of a text that is being read. */
typedef struct {
    int64_t start, length;
    uint64_t code;
} token;

/* The next word: a line end, or bytes other than spaces and line ends; length 0 at the end. */
static inline token next_token(const uint8_t *raw, int64_t start, int64_t size)
{
    while (start < size && raw[start] == ' ')
        start++;
    int64_t stop = start;
    if (stop < size && raw[stop] == '\n')
        stop++;
    else
        while (stop < size && raw[stop] != ' ' && raw[stop] != '\n')
            stop++;
    return (token){start, stop - start, 0};
}

/* Write the number of each word of a text; return how many words it has.  *count is the number of
 * different words, which have room in text, ends and places. */
int64_t numbers_find(const uint8_t *raw, int64_t size, uint8_t *text, uint32_t *ends, int64_t *count,
                     uint64_t *places, int bits, const uint64_t *random, int32_t *found)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    token tokens[AHEAD] = {{0}};
    int64_t at = 0, n = INT64_MAX;
    for (int64_t i = 0; i - AHEAD < n; i++) {
        const token word = tokens[i % AHEAD];
        if (n == INT64_MAX) {
            token next = next_token(raw, at, size);
            at = next.start + next.length;
            if (next.length == 0)
                n = i;
            next.code = hash(raw + next.start, next.length, random);
            tokens[i % AHEAD] = next;
        }
        /* What the search will need: a place, then the end of the word there, then its bytes. */
        __builtin_prefetch(&places[tokens[i % AHEAD].code >> (64 - bits)]);
        const uint64_t far = tokens[(i + AHEAD / 3 * 2) % AHEAD].code >> (64 - bits);
        __builtin_prefetch(&ends[places[far] & UINT32_MAX]);
        const uint64_t near = tokens[(i + AHEAD / 3) % AHEAD].code >> (64 - bits);
        __builtin_prefetch(&text[ends[places[near] & UINT32_MAX]]);
        if (i < AHEAD)
            continue;
        const uint8_t *bytes = raw + word.start;
        const size_t length = (size_t)word.length;
        uint64_t number;
        for (uint64_t place = word.code >> (64 - bits);; place = (place + 1) & mask) {
            const uint64_t other = places[place];
            number = other & UINT32_MAX;
            if (other == 0) { /* a new word */
                number = (uint64_t)(*count)++;
                places[place] = word.code << 32 | number;
                memcpy(text + ends[number - 1], bytes, length);
                ends[number] = ends[number - 1] + (uint32_t)length;
                break;
            }
            if (other >> 32 == (word.code & UINT32_MAX) &&
                ends[number] - ends[number - 1] == length &&
                memcmp(text + ends[number - 1], bytes, length) == 0)
                break;
        }
        found[i - AHEAD] = (int32_t)number;
    }
    return n;
}

/* Put all words into the places of a table that is empty. */
void numbers_move(const uint8_t *text, const uint32_t *ends, int64_t count, uint64_t *places,
                  int bits, const uint64_t *random)
{
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t hashes[AHEAD] = {0};
    for (int64_t i = 1; i < count + AHEAD; i++) {
        uint64_t code = hashes[i % AHEAD];
        if (i < count) {
            uint64_t next = hash(text + ends[i - 1], ends[i] - ends[i - 1], random);
            hashes[i % AHEAD] = next;
            __builtin_prefetch(&places[next >> (64 - bits)]);
        }
        if (i <= AHEAD)
            continue;
        uint64_t place = code >> (64 - bits);
        while (places[place] != 0)
            place = (place + 1) & mask;
        places[place] = code << 32 | (uint64_t)(i - AHEAD);
    }
}

/* Count how often each number occurs. */
void numbers_count(const int32_t *found, int64_t n, int32_t *counts)
{
    for (int64_t i = 0; i < n; i++)
        counts[found[i]]++;
}

/* A word's bytes from some byte on, then how many these are, 8 meaning more; and its number. */
typedef struct {
    uint64_t key;
    int32_t number;
} entry;

/* Sort by key; other is memory for as many entries.  The keys of many are sorted byte by byte. */
static void sort_entries(entry *entries, entry *other, int64_t n)
{
    if (n <= FEW) {
        for (int64_t i = 1; i < n; i++) {
            entry moved = entries[i];
            int64_t j = i;
            for (; j > 0 && entries[j - 1].key > moved.key; j--)
                entries[j] = entries[j - 1];
            entries[j] = moved;
        }
        return;
    }
    int64_t counts[8][256] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int byte = 0; byte < 8; byte++)
            counts[byte][entries[i].key >> 8 * byte & 255]++;
    entry *from = entries, *to = other;
    for (int byte = 0; byte < 8; byte++) {
        int64_t *count = counts[byte], sum = 0;
        if (count[entries[0].key >> 8 * byte & 255] == n)
            continue; /* all have the same byte */
        for (int value = 0; value < 256; value++) {
            int64_t start = sum;
            sum += count[value];
            count[value] = start;
        }
        for (int64_t i = 0; i < n; i++)
            to[count[from[i].key >> 8 * byte & 255]++] = from[i];
        entry *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != entries)
        memcpy(entries, from, (size_t)n * sizeof(entry));
}

/* Words between two places of the order that have the same first bytes. */
typedef struct {
    int32_t start, stop;
    int64_t same;
} group;

/* Sort numbers by the first bytes of their words; write the groups, at most 256, and return how
 * many there are.  copy is memory for as many numbers. */
static int64_t split(const uint8_t *text, const uint32_t *ends, int32_t *numbers, int64_t n,
                     int32_t *copy, group *groups)
{
    int64_t counts[256] = {0}, sum = 0, made = 0;
    for (int64_t i = 0; i < n; i++)
        counts[text[ends[numbers[i] - 1]]]++;
    for (int value = 0; value < 256; value++) {
        const int64_t start = sum;
        sum += counts[value];
        counts[value] = start;
        if (sum - start > 1)
            groups[made++] = (group){(int32_t)start, (int32_t)sum, 0};
    }
    memcpy(copy, numbers, (size_t)n * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++)
        numbers[counts[text[ends[copy[i] - 1]]]++] = copy[i];
    return made;
}

/* Sort n different numbers by the bytes of their words; return 0, or 1 without enough memory.
 *
 * Words with the same first bytes are sorted by their next bytes, and so on, without recursion.  So
 * the work is proportional to the length of all words. */
int numbers_order(const uint8_t *text, const uint32_t *ends, int32_t *numbers, int64_t n)
{
    int64_t room = 1024, pending = 0, most = 1;
    group *groups = malloc((size_t)room * sizeof(group));
    int32_t *copy = malloc((size_t)(n + 1) * sizeof(int32_t));
    entry *entries = NULL, *other = NULL;
    if (groups != NULL && copy != NULL) {
        pending = split(text, ends, numbers, n, copy, groups);
        for (int64_t i = 0; i < pending; i++)
            if (groups[i].stop - groups[i].start > most)
                most = groups[i].stop - groups[i].start;
        entries = malloc((size_t)most * sizeof(entry));
        other = malloc((size_t)most * sizeof(entry));
    }
    free(copy);
    int failed = entries == NULL || other == NULL;
    while (pending > 0 && !failed) {
        const group next = groups[--pending];
        const int64_t size = next.stop - next.start;
        for (int64_t i = 0; i < size; i++) {
            const int32_t number = numbers[next.start + i];
            if (i + AHEAD < size)
                __builtin_prefetch(&ends[numbers[next.start + i + AHEAD] - 1]);
            if (i + AHEAD / 2 < size)
                __builtin_prefetch(text + ends[numbers[next.start + i + AHEAD / 2] - 1] + next.same);
            const uint8_t *rest = text + ends[number - 1] + next.same;
            const int64_t left = text + ends[number] - rest;
            entries[i].key = next_bytes(rest, left) << 8 | (uint64_t)(left > STEP ? 8 : left);
            entries[i].number = number;
        }
        sort_entries(entries, other, size);
        for (int64_t i = 0; i < size; i++)
            numbers[next.start + i] = entries[i].number;
        if (pending + size / 2 > room) {
            room = 2 * (pending + size / 2);
            group *larger = realloc(groups, (size_t)room * sizeof(group));
            failed = larger == NULL;
            if (failed)
                break;
            groups = larger;
        }
        for (int64_t i = 0, j; i < size; i = j) {
            for (j = i + 1; j < size && entries[j].key == entries[i].key; j++)
                ;
            if (j - i > 1 && (entries[i].key & 255) > STEP)
                groups[pending++] = (group){(int32_t)(next.start + i), (int32_t)(next.start + j),
                                            next.same + STEP};
        }
    }
    free(groups);
    free(entries);
    free(other);
    return failed;
}
