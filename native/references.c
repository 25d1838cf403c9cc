/*
 * Character references: HTML Standard, 13.2.5.72 to 13.2.5.80, and the normalisation of line ends, 13.2.3.5.
 *
 * The text is in UTF-8, of which nothing but ASCII is looked at.
 */

#include "references.h"

#include <stdint.h>
#include <string.h>

#include "entities.h"

#define REPLACEMENT 0xFFFD
#define LAST_CHARACTER 0x10FFFF

/* What references to C1 controls mean: windows-1252, as the standard has it; 0: the control itself. */
static const uint16_t controls[32] = {
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017D, 0,      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178,
};

static bool
is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The value of a digit; 16 and more if it is none. */
static unsigned
digit(char c)
{
    if (c >= '0' && c <= '9') {
        return (unsigned)(c - '0');
    }
    if (c >= 'a' && c <= 'f') {
        return (unsigned)(c - 'a') + 10;
    }
    return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 16;
}

static char *
write_character(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    }
    else if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    else if (code < 0x10000) {
        *out++ = (char)(0xE0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    else {
        *out++ = (char)(0xF0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3F));
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    return out;
}

/* The character that a numeric reference with this number means. */
static uint32_t
numbered(uint32_t code)
{
    if (code == 0 || code > LAST_CHARACTER || (code >= 0xD800 && code <= 0xDFFF)) {
        return REPLACEMENT;
    }
    if (code >= 0x80 && code < 0xA0 && controls[code - 0x80] != 0) {
        return controls[code - 0x80];
    }
    return code;
}

/* A numeric reference; at is behind "&#". Returns where it ends, or NULL if it is none. */
static const char *
numeric_reference(const char *at, const char *end, char **out)
{
    unsigned base = 10;
    if (at < end && (*at == 'x' || *at == 'X')) {
        base = 16;
        at++;
    }
    const char *first = at;
    uint32_t code = 0;
    for (; at < end && digit(*at) < base; at++) {
        if (code <= LAST_CHARACTER) { /* more digits cannot make it valid again */
            code = code * base + digit(*at);
        }
    }
    if (at == first) {
        return NULL;
    }
    *out = write_character(*out, numbered(code));
    return at < end && *at == ';' ? at + 1 : at;
}

/* The first name of a range whose byte at this place is not below another one. The bytes before it are the same. */
static size_t
first_not_below(size_t low, size_t high, size_t place, int byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entities[middle].name[place] < byte) {
            low = middle + 1;
        }
        else {
            high = middle;
        }
    }
    return low;
}

/* The longest name that the text begins with, or NULL. The names are sorted, so those that agree with what was read so
 * far are a range, and each further byte narrows it. */
static const struct entity *
longest_name(const char *text, size_t size)
{
    if (size == 0 || !is_alphanumeric(text[0]) || text[0] < 'A') {
        return NULL;
    }
    size_t low = entity_starts[text[0] - 'A'], high = entity_starts[text[0] - 'A' + 1];
    const struct entity *longest = NULL;
    for (size_t read = 1; low < high; read++) {
        if (entities[low].size == read) {
            longest = &entities[low];
            low++;
        }
        if (read == size) {
            break;
        }
        low = first_not_below(low, high, read, text[read]);
        high = first_not_below(low, high, read, text[read] + 1);
    }
    return longest;
}

/* A named reference; at is behind "&". Returns where it ends, or NULL if it is none. */
static const char *
named_reference(const char *at, const char *end, char **out, bool in_attribute)
{
    const struct entity *found = longest_name(at, (size_t)(end - at));
    if (found == NULL) {
        return NULL;
    }
    const char *behind = at + found->size;
    if (in_attribute && behind[-1] != ';' && behind < end && (*behind == '=' || is_alphanumeric(*behind))) {
        return NULL; /* as in "?a=1&copy=2" */
    }
    size_t size = strlen(found->means);
    memcpy(*out, found->means, size);
    *out += size;
    return behind;
}

bool
must_be_decoded(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '&' || text[i] == '\r' || text[i] == '\0') {
            return true;
        }
    }
    return false;
}

size_t
decode_references(const char *text, size_t size, char *out, size_t enough, bool in_attribute)
{
    const char *at = text, *end = text + size, *behind;
    char *to = out;
    while (at < end && (size_t)(to - out) < enough) {
        char c = *at++;
        if (c == '&') {
            behind = at < end && *at == '#' ? numeric_reference(at + 1, end, &to)
                                            : named_reference(at, end, &to, in_attribute);
            if (behind == NULL) {
                *to++ = c;
            }
            else {
                at = behind;
            }
        }
        else if (c == '\r') {
            *to++ = '\n';
            at += at < end && *at == '\n';
        }
        else if (c == '\0') {
            to = write_character(to, REPLACEMENT);
        }
        else {
            *to++ = c;
        }
    }
    return (size_t)(to - out);
}
