/* BLAKE2b with 16 bytes of output (RFC 7693), for many short messages under one key, or one that comes in blocks. */
#ifndef CRAWLER_BLAKE2B_H
#define CRAWLER_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

#define BLAKE2B_BLOCK 128
#define BLAKE2B_MOST_KEY 64
#define BLAKE2B_DIGEST 16

/* Where every message begins: the state behind the block of the key. */
typedef struct {
    uint64_t chain[8];
    uint64_t taken; /* bytes compressed so far: 128 with a key, 0 without */
    uint8_t of_nothing[BLAKE2B_DIGEST]; /* with a key, the digest of no bytes begins elsewhere: it is kept ready */
} Blake2b;

/* `size` is at most BLAKE2B_MOST_KEY. */
void blake2b_begin(Blake2b *self, const uint8_t *key, size_t size);

/* Take whole blocks of a message that does not end with them. */
void blake2b_take(Blake2b *self, const uint8_t *text, size_t blocks);

/* The digest of a message, or of one that ends with this text. */
void blake2b_digest(const Blake2b *self, const uint8_t *text, size_t size, uint8_t out[BLAKE2B_DIGEST]);

#endif
