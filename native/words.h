/* Eight bytes at a time: most names, values and texts of a page are that short, and a loop over their bytes ends where
 * no processor can predict. */

#ifndef CRAWLER_NATIVE_WORDS_H
#define CRAWLER_NATIVE_WORDS_H

#include <stdint.h>
#include <string.h>

#define WORD 8
#define EACH UINT64_C(0x0101010101010101) /* times a byte: that byte in each place */
#define NEAR 3                            /* words that are looked through before memchr is called */

/* The bytes as a number, the first one the lowest: the machine is little-endian (bloom.h). */
static inline uint64_t
load_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Not 0 if the word has such a byte. The lowest bit that is set is in the place of the first one. */
static inline uint64_t
with_byte(uint64_t word, char byte)
{
    uint64_t zero = word ^ EACH * (unsigned char)byte;
    return (zero - EACH) & ~zero & EACH << 7;
}

/* The place in the word of the lowest bit that is set; there is one. */
static inline unsigned
first_place(uint64_t bits)
{
    return (unsigned)__builtin_ctzll(bits) / 8;
}

/* As memchr, which takes longer than most of what it would look through is long. */
static inline const char *
find_near(const char *at, const char *end, char byte)
{
    for (int i = 0; i < NEAR && end - at >= WORD; i++, at += WORD) {
        uint64_t found = with_byte(load_word(at), byte);
        if (found != 0) {
            return at + first_place(found);
        }
    }
    return at < end ? memchr(at, byte, (size_t)(end - at)) : NULL;
}

#endif
