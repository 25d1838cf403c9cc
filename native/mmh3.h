/* MurmurHash3 x64 128 (Austin Appleby, public domain). */
#ifndef CRAWLER_MMH3_H
#define CRAWLER_MMH3_H

#include <stddef.h>
#include <stdint.h>

void mmh3_digest(uint32_t seed, const uint8_t *text, size_t size, uint8_t out[16]);

#endif
