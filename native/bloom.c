#include "bloom.h"

#include <string.h>

#define AHEAD 16 /* keys whose memory is asked for before it is looked at: about what a core keeps under way */
#define GOLDEN 0x9E3779B97F4A7C15u
#define MOST_CLASSIC 30
#define MOST_GUAVA 255
#define MASK63 0x7fffffffffffffffu
/* Where this is used, layout and number of hashes are constants: the compiler makes a loop of its own for each. */
#define INLINE static inline __attribute__((always_inline))
#define FEW 8 /* positions; a table costs more than comparing each with each */

uint64_t
bloom_words(Layout layout, uint64_t size, uint64_t hashes)
{
    if (layout == BLOCKED || layout == PAIRED) {
        return size >= 1 && size < (uint64_t)1 << 31 && (hashes == 8 || hashes == 16) ? size * 8 : 0;
    }
    uint64_t most = layout == CLASSIC ? MOST_CLASSIC : MOST_GUAVA;
    return size >= 64 && size % 64 == 0 && hashes >= 1 && hashes <= most ? size / 64 : 0;
}

/* -- blocks: a key has eight words, all in one block or half of them in each of two */

typedef struct {
    uint64_t *near, *far;
} Place;

INLINE Place
place_of(const Slice *slice, Layout layout, Digest digest)
{
    uint64_t mixed = (digest.h1 ^ digest.h2) * GOLDEN;
    uint64_t a = mixed & 0xffffffffu, b = mixed >> 32;
    Place place;
    if (layout == PAIRED) {
        place.near = slice->words + (a * slice->size >> 32) * 4;
        place.far = slice->words + (slice->size + (b * slice->size >> 32)) * 4;
    } else {
        place.near = slice->words + (a * slice->size >> 32) * 8;
        place.far = place.near + 4;
    }
    return place;
}

INLINE uint64_t
mask_of(uint64_t lane, int hashes)
{
    uint64_t mask = (uint64_t)1 << (lane & 63);
    return hashes == 16 ? mask | (uint64_t)1 << (lane >> 6 & 63) : mask;
}

/* Four words at once, without a branch between them: which of them lacks a bit is chance, and cannot be foretold. */
INLINE uint64_t
lacking(const uint64_t *words, uint64_t lanes, int hashes)
{
    uint64_t first = ~words[0] & mask_of(lanes, hashes), second = ~words[1] & mask_of(lanes >> 16, hashes);
    uint64_t third = ~words[2] & mask_of(lanes >> 32, hashes), fourth = ~words[3] & mask_of(lanes >> 48, hashes);
    return first | second | third | fourth;
}

INLINE int
block_holds(const Slice *slice, Layout layout, int hashes, Digest digest)
{
    Place place = place_of(slice, layout, digest);
    return !(lacking(place.near, digest.h1, hashes) | lacking(place.far, digest.h2, hashes));
}

static void
block_put(const Slice *slice, Digest digest)
{
    Place place = place_of(slice, slice->layout, digest);
    for (int i = 0; i < 4; i++) {
        place.near[i] |= mask_of(digest.h1 >> 16 * i, slice->hashes);
        place.far[i] |= mask_of(digest.h2 >> 16 * i, slice->hashes);
    }
}

/* -- bits anywhere */

static uint64_t
position_of(const Slice *slice, Digest digest, uint64_t i)
{
    uint64_t sum = digest.h1 + i * digest.h2;
    return (slice->layout == CLASSIC ? sum + (i * i * i - i) / 6 : sum & MASK63) % slice->size;
}

static int
bits_hold(const Slice *slice, Digest digest)
{
    for (int i = 0; i < slice->hashes; i++) {
        uint64_t at = position_of(slice, digest, (uint64_t)i);
        if (!(slice->words[at >> 6] >> (at & 63) & 1)) {
            return 0;
        }
    }
    return 1;
}

static void
bits_put(const Slice *slice, Digest digest)
{
    for (int i = 0; i < slice->hashes; i++) {
        uint64_t at = position_of(slice, digest, (uint64_t)i);
        slice->words[at >> 6] |= (uint64_t)1 << (at & 63);
    }
}

/* -- any of them */

static int
is_blocks(const Slice *slice)
{
    return slice->layout == BLOCKED || slice->layout == PAIRED;
}

INLINE void
fetch_ahead(const Slice *slice, Layout layout, Digest digest)
{
    if (layout == BLOCKED || layout == PAIRED) {
        Place place = place_of(slice, layout, digest);
        __builtin_prefetch(place.near);
        __builtin_prefetch(place.far);
        return;
    }
    for (int i = 0; i < slice->hashes; i++) {
        __builtin_prefetch(slice->words + (position_of(slice, digest, (uint64_t)i) >> 6));
    }
}

INLINE size_t
unseen_by(
    const Slice *slice, Layout layout, int hashes, const Digest *digests, const uint32_t *asked, size_t count,
    uint32_t *unseen
)
{
    size_t left = 0;
    for (size_t i = 0; i < count && i < AHEAD && count > 1; i++) {
        fetch_ahead(slice, layout, digests[asked[i]]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            fetch_ahead(slice, layout, digests[asked[i + AHEAD]]);
        }
        uint32_t at = asked[i];
        unseen[left] = at;
        left += layout == CLASSIC ? !bits_hold(slice, digests[at]) : !block_holds(slice, layout, hashes, digests[at]);
    }
    return left;
}

size_t
bloom_unseen(const Slice *slice, const Digest *digests, const uint32_t *asked, size_t count, uint32_t *unseen)
{
    if (!is_blocks(slice)) {
        return unseen_by(slice, CLASSIC, 0, digests, asked, count, unseen);
    }
    if (slice->layout == BLOCKED) {
        return slice->hashes == 8 ? unseen_by(slice, BLOCKED, 8, digests, asked, count, unseen)
                                  : unseen_by(slice, BLOCKED, 16, digests, asked, count, unseen);
    }
    return slice->hashes == 8 ? unseen_by(slice, PAIRED, 8, digests, asked, count, unseen)
                              : unseen_by(slice, PAIRED, 16, digests, asked, count, unseen);
}

void
bloom_put(const Slice *slice, const Digest *digests, const uint32_t *chosen, size_t count)
{
    int blocks = is_blocks(slice);
    for (size_t i = 0; i < count && i < AHEAD; i++) {
        fetch_ahead(slice, slice->layout, digests[chosen[i]]);
    }
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            fetch_ahead(slice, slice->layout, digests[chosen[i + AHEAD]]);
        }
        if (blocks) {
            block_put(slice, digests[chosen[i]]);
        } else {
            bits_put(slice, digests[chosen[i]]);
        }
    }
}

/* -- the same key twice in a batch */

static int
same(Digest one, Digest other)
{
    return one.h1 == other.h1 && one.h2 == other.h2;
}

static size_t
few_first_occurrences(const Digest *digests, uint32_t *positions, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        size_t before = 0;
        while (before < left && !same(digests[positions[before]], digests[positions[i]])) {
            before++;
        }
        if (before == left) {
            positions[left++] = positions[i];
        }
    }
    return left;
}

size_t
bloom_table(size_t count)
{
    size_t size = 2 * FEW;
    while (size < 2 * count) {
        size *= 2;
    }
    return size;
}

size_t
bloom_first_occurrences(
    const Digest *digests, uint32_t *positions, size_t count, uint16_t *table, uint64_t multiplier
)
{
    if (count <= FEW) {
        return few_first_occurrences(digests, positions, count);
    }
    size_t size = bloom_table(count), left = 0;
    memset(table, 0, size * sizeof *table); /* 0: empty; otherwise a place in `positions`, from 1 */
    for (size_t i = 0; i < count; i++) {
        Digest digest = digests[positions[i]];
        uint64_t mixed = digest.h1 * multiplier;
        size_t at = (((mixed ^ mixed >> 32) + digest.h2) * multiplier >> 32) & (size - 1);
        while (table[at] && !same(digests[positions[table[at] - 1]], digest)) {
            at = (at + 1) & (size - 1);
        }
        if (table[at]) {
            continue;
        }
        positions[left++] = positions[i];
        table[at] = (uint16_t)left;
    }
    return left;
}
