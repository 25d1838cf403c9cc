/* BLAKE2b after RFC 7693, section 3. The twelve rounds are written out by the preprocessor: the compiler knows the
 * permutations then, and reads every word of the message from a fixed place, without a table. */
#include "blake2b.h"

#include <string.h>

#define BLOCK BLAKE2B_BLOCK

static const uint64_t IV[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

#define ROTATE(x, n) ((x) >> (n) | (x) << (64 - (n)))

#define MIX(a, b, c, d, x, y)       \
    do {                            \
        a = a + b + m[x];           \
        d = ROTATE(d ^ a, 32);      \
        c = c + d;                  \
        b = ROTATE(b ^ c, 24);      \
        a = a + b + m[y];           \
        d = ROTATE(d ^ a, 16);      \
        c = c + d;                  \
        b = ROTATE(b ^ c, 63);      \
    } while (0)

#define ROUND(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15) \
    do {                                                                            \
        MIX(v0, v4, v8, v12, s0, s1);                                               \
        MIX(v1, v5, v9, v13, s2, s3);                                               \
        MIX(v2, v6, v10, v14, s4, s5);                                              \
        MIX(v3, v7, v11, v15, s6, s7);                                              \
        MIX(v0, v5, v10, v15, s8, s9);                                              \
        MIX(v1, v6, v11, v12, s10, s11);                                            \
        MIX(v2, v7, v8, v13, s12, s13);                                             \
        MIX(v3, v4, v9, v14, s14, s15);                                             \
    } while (0)

/* `taken`: the bytes of the message up to the end of this block. A message has fewer than 2**64 of them here. */
static void
compress(uint64_t h[8], const uint8_t block[BLOCK], uint64_t taken, int last)
{
    uint64_t m[16];
    memcpy(m, block, BLOCK);
    uint64_t v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3], v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
    uint64_t v8 = IV[0], v9 = IV[1], v10 = IV[2], v11 = IV[3];
    uint64_t v12 = IV[4] ^ taken, v13 = IV[5], v14 = last ? ~IV[6] : IV[6], v15 = IV[7];
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4);
    ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8);
    ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13);
    ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9);
    ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11);
    ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10);
    ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5);
    ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0);
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3);
    h[0] ^= v0 ^ v8;
    h[1] ^= v1 ^ v9;
    h[2] ^= v2 ^ v10;
    h[3] ^= v3 ^ v11;
    h[4] ^= v4 ^ v12;
    h[5] ^= v5 ^ v13;
    h[6] ^= v6 ^ v14;
    h[7] ^= v7 ^ v15;
}

void
blake2b_begin(Blake2b *self, const uint8_t *key, size_t size)
{
    uint8_t block[BLOCK] = {0};
    memcpy(self->chain, IV, sizeof IV);
    self->chain[0] ^= 0x01010000u ^ (uint64_t)size << 8 ^ BLAKE2B_DIGEST;
    self->taken = 0;
    uint64_t alone[8];
    memcpy(alone, self->chain, sizeof alone);
    if (size > 0) {
        memcpy(block, key, size);
        compress(self->chain, block, BLOCK, 0);
        self->taken = BLOCK;
    }
    compress(alone, block, self->taken, 1);
    memcpy(self->of_nothing, alone, BLAKE2B_DIGEST);
}

void
blake2b_take(Blake2b *self, const uint8_t *text, size_t blocks)
{
    for (; blocks > 0; text += BLOCK, blocks--) {
        compress(self->chain, text, self->taken += BLOCK, 0);
    }
}

void
blake2b_digest(const Blake2b *self, const uint8_t *text, size_t size, uint8_t out[BLAKE2B_DIGEST])
{
    if (size == 0) {
        memcpy(out, self->of_nothing, BLAKE2B_DIGEST);
        return;
    }
    uint64_t h[8], taken = self->taken;
    memcpy(h, self->chain, sizeof h);
    for (; size > BLOCK; text += BLOCK, size -= BLOCK) {
        compress(h, text, taken += BLOCK, 0);
    }
    uint8_t rest[BLOCK] = {0};
    memcpy(rest, text, size);
    compress(h, rest, taken + size, 1);
    memcpy(out, h, BLAKE2B_DIGEST);
}
