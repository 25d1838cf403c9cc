/* The Bloom slices of a chain over the caller's memory: which digests are in, and setting their bits.
 *
 * Layouts, positions and formats are those of crawler/seen/slices/blocked_slice.py, classic_slice.py and
 * guava_slice.py, which derive them; the words are little-endian, and so is the machine (the build stops on others).
 * Nothing here knows Python.
 */
#ifndef CRAWLER_BLOOM_H
#define CRAWLER_BLOOM_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "digests and words are read as the machine has them, which must be little-endian: others have the Python path"
#endif

typedef struct {
    uint64_t h1, h2;
} Digest;

typedef enum { BLOCKED, PAIRED, CLASSIC, GUAVA } Layout;

typedef struct {
    uint64_t *words;
    Layout layout;
    int hashes;
    uint64_t size; /* blocks a region; of classic and Guava's slices, bits */
} Slice;

/* The words that a slice of that layout and size has; 0 if there can be none. */
uint64_t bloom_words(Layout layout, uint64_t size, uint64_t hashes);

/* Of the digests at the `count` positions `asked` (ascending), write those that the slice does not hold to `unseen`,
 * and return how many there are. `unseen` may be `asked`. */
size_t bloom_unseen(const Slice *slice, const Digest *digests, const uint32_t *asked, size_t count, uint32_t *unseen);

/* Set the bits of the digests at those positions. */
void bloom_put(const Slice *slice, const Digest *digests, const uint32_t *chosen, size_t count);

/* Remove from `positions` those whose digest stands at an earlier one, and return how many are left. `table` has room
 * for bloom_table(count) numbers. Nobody who does not know `multiplier`, an odd number, can choose digests that make it
 * slow. */
size_t bloom_first_occurrences(
    const Digest *digests, uint32_t *positions, size_t count, uint16_t *table, uint64_t multiplier
);
size_t bloom_table(size_t count);

#endif
