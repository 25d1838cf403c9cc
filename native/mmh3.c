#include "mmh3.h"

#include <string.h>

static const uint64_t C1 = 0x87c37b91114253d5u, C2 = 0x4cf5ad432745937fu;

static uint64_t
rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t
finish(uint64_t k)
{
    k ^= k >> 33;
    k *= 0xff51afd7ed558ccdu;
    k ^= k >> 33;
    k *= 0xc4ceb9fe1a85ec53u;
    return k ^ k >> 33;
}

static uint64_t
first(uint64_t k)
{
    return rotate(k * C1, 31) * C2;
}

static uint64_t
second(uint64_t k)
{
    return rotate(k * C2, 33) * C1;
}

void
mmh3_digest(uint32_t seed, const uint8_t *text, size_t size, uint8_t out[16])
{
    uint64_t h1 = seed, h2 = seed, k[2];
    size_t left = size;
    for (; left >= 16; text += 16, left -= 16) {
        memcpy(k, text, 16);
        h1 ^= first(k[0]);
        h1 = (rotate(h1, 27) + h2) * 5 + 0x52dce729u;
        h2 ^= second(k[1]);
        h2 = (rotate(h2, 31) + h1) * 5 + 0x38495ab5u;
    }
    if (left > 0) {
        /* Zeros behind the end are what the reference has there: both functions take 0 to 0. */
        memset(k, 0, sizeof k);
        memcpy(k, text, left);
        h2 ^= second(k[1]);
        h1 ^= first(k[0]);
    }
    h1 ^= size;
    h2 ^= size;
    h1 += h2;
    h2 += h1;
    h1 = finish(h1);
    h2 = finish(h2);
    h1 += h2;
    h2 += h1;
    memcpy(out, &h1, 8);
    memcpy(out + 8, &h2, 8);
}
