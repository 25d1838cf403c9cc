/*
 * The tokeniser's states that matter to links: tags with their attributes, comments, and elements without markup.
 *
 * Each function reads on from a place in the page and returns the place behind what it has read. None looks behind the
 * end, and none goes back, so all together take time in proportion to the page. Carriage returns count as line feeds,
 * which the input stream makes of them (13.2.3.5).
 */

#include "markup.h"

#include <string.h>

#include "names.h"

#define LOWER 0x20 /* makes a letter lower-case, and no other byte a letter */
#define NAME_MOST 8 /* bytes of a name that is a number */

/* What ends a name or a value. */
enum {
    SPACE = 1,
    SLASH = 2,
    CLOSE = 4,
    EQUALS = 8,
};

static const unsigned char kinds[256] = {
    ['\t'] = SPACE, ['\n'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE,  [' '] = SPACE,
    ['/'] = SLASH,  ['>'] = CLOSE,  ['='] = EQUALS,
};

static inline unsigned
kind_of(char c)
{
    return kinds[(unsigned char)c];
}

bool
is_space(char c)
{
    return kind_of(c) == SPACE;
}

bool
is_word(struct text text, const char *word)
{
    size_t i = 0;
    for (; i < text.size && word[i] != '\0'; i++) {
        char c = text.at[i];
        if ((c >= 'A' && c <= 'Z' ? c | LOWER : c) != word[i]) {
            return false;
        }
    }
    return i == text.size && word[i] == '\0';
}

static enum tag
tag_with_long_name(struct text name)
{
    if (is_word(name, "plaintext")) {
        return TAG_PLAINTEXT;
    }
    return is_word(name, "blockquote") ? TAG_BREAKS_OUT : TAG_OTHER;
}

const char *
read_name(const char *at, const char *end, bool in_drawing, enum tag *tag)
{
    const char *first = at;
    uint64_t name = 0;
    for (unsigned shift = 0; at < end && (kind_of(*at) & (SPACE | SLASH | CLOSE)) == 0; at++, shift += 8) {
        name |= shift < 64 ? (uint64_t)(unsigned char)(*at | LOWER) << shift : 0;
    }
    if (at - first > NAME_MOST) {
        *tag = tag_with_long_name((struct text){first, (size_t)(at - first)});
        return at;
    }
    const struct name *found = &names[name * NAMES_MULTIPLIER >> NAME_SHIFT];
    if (found->name != name && in_drawing) {
        found = &breaking_names[name * BREAKING_NAMES_MULTIPLIER >> NAME_SHIFT];
    }
    *tag = found->name == name ? found->tag : TAG_OTHER;
    return at;
}

enum tag
name_in_anchor(struct text name, uint64_t *number)
{
    *number = 0;
    if (name.size > NAME_MOST) {
        return TAG_OTHER;
    }
    uint64_t packed = 0; /* not *number, which the name could be a part of for all the compiler knows */
    for (size_t i = 0; i < name.size; i++) {
        packed |= (uint64_t)(unsigned char)(name.at[i] | LOWER) << 8 * i;
    }
    *number = packed;
    const struct name *found = &anchor_names[packed * ANCHOR_NAMES_MULTIPLIER >> NAME_SHIFT];
    return found->name == packed ? found->tag : TAG_OTHER;
}

/* The place of an attribute in `struct attributes`; ATTRIBUTES if it does not matter. */
static enum attribute
attribute_named(struct text name)
{
    switch (name.size) {
        case 3: return is_word(name, "rel") ? ATTRIBUTE_REL : is_word(name, "src") ? ATTRIBUTE_SRC : ATTRIBUTES;
        case 4:
            return is_word(name, "href")   ? ATTRIBUTE_HREF
                   : is_word(name, "type") ? ATTRIBUTE_TYPE
                   : is_word(name, "name") ? ATTRIBUTE_NAME
                   : is_word(name, "lang") ? ATTRIBUTE_LANG
                   : is_word(name, "data") ? ATTRIBUTE_DATA
                                           : ATTRIBUTES;
        case 6:
            return is_word(name, "srcset")   ? ATTRIBUTE_SRCSET
                   : is_word(name, "poster") ? ATTRIBUTE_POSTER
                                             : ATTRIBUTES;
        case 7:
            return is_word(name, "content")   ? ATTRIBUTE_CONTENT
                   : is_word(name, "charset") ? ATTRIBUTE_CHARSET
                                              : ATTRIBUTES;
        case 10: return is_word(name, "http-equiv") ? ATTRIBUTE_HTTP_EQUIV : ATTRIBUTES;
        default: return ATTRIBUTES;
    }
}

/* Where the value ends that begins at `at`, behind "=" and spaces; NULL if the page ends in it. */
static const char *
read_value(const char *at, const char *end, struct text *value)
{
    if (*at == '"' || *at == '\'') {
        const char *close = memchr(at + 1, *at, (size_t)(end - at - 1));
        if (close == NULL) {
            return NULL;
        }
        *value = (struct text){at + 1, (size_t)(close - at - 1)};
        return close + 1;
    }
    value->at = at;
    while (at < end && (kind_of(*at) & (SPACE | CLOSE)) == 0) {
        at++;
    }
    value->size = (size_t)(at - value->at);
    return at;
}

static const char *
skip_spaces(const char *at, const char *end)
{
    while (at < end && kind_of(*at) == SPACE) {
        at++;
    }
    return at;
}

/* Where the attribute ends that begins at `at`; NULL if the page ends in its value. */
static const char *
read_attribute(const char *at, const char *end, struct attributes *found)
{
    struct text name = {at, 0}, value;
    at++; /* "=" may begin a name */
    while (at < end && kind_of(*at) == 0) {
        at++;
    }
    name.size = (size_t)(at - name.at);
    value = (struct text){at, 0};
    bool valued = false;
    const char *next = skip_spaces(at, end);
    if (next < end && *next == '=') {
        next = skip_spaces(next + 1, end);
        if (next < end && *next != '>') {
            valued = true;
            next = read_value(next, end, &value);
        }
    }
    if (found != NULL && next != NULL) {
        enum attribute place = attribute_named(name);
        if (place != ATTRIBUTES && found->of[place].at == NULL) { /* of several, the first one counts */
            found->of[place] = value;
            found->valued |= (unsigned)valued << place;
        }
    }
    return next;
}

const char *
read_attributes(const char *at, const char *end, struct attributes *found, bool *self_closing)
{
    bool slash = false;
    if (at != NULL && at < end && *at == '>') { /* as most tags end */
        return at + 1;
    }
    while (at != NULL && at < end) {
        switch (kind_of(*at)) {
            case CLOSE:
                if (self_closing != NULL) {
                    *self_closing = slash;
                }
                return at + 1;
            case SLASH:
            case SPACE:
                slash = *at == '/';
                at++;
                break;
            default:
                slash = false;
                at = read_attribute(at, end, found);
        }
    }
    return NULL;
}

const char *
skip_tag(const char *at, const char *end)
{
    while (at < end && (kind_of(*at) & (SPACE | SLASH | CLOSE)) == 0) {
        at++;
    }
    return read_attributes(at, end, NULL, NULL);
}

const char *
skip_comment(const char *at, const char *end)
{
    const char *first = at;
    if (at < end && *at == '>') {
        return at + 1;
    }
    if (end - at > 1 && at[0] == '-' && at[1] == '>') {
        return at + 2;
    }
    while ((at = memchr(at, '>', (size_t)(end - at))) != NULL) {
        const char *dashes = at > first && at[-1] == '!' ? at - 1 : at;
        if (dashes - first >= 2 && dashes[-1] == '-' && dashes[-2] == '-') {
            return at + 1;
        }
        at++;
    }
    return NULL;
}

/* Whether a name ends at `at`. */
static bool
ends_name(const char *at, const char *end)
{
    return at < end && (kind_of(*at) & (SPACE | SLASH | CLOSE)) != 0;
}

/* Whether the text at `at` is this name, and ends there. */
static bool
has_name(const char *at, const char *end, const char *name, size_t size)
{
    if ((size_t)(end - at) < size || !ends_name(at + size, end)) {
        return false;
    }
    return is_word((struct text){at, size}, name);
}

const char *
find_end_tag(const char *at, const char *end, const char *name, size_t size)
{
    while (at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        if (end - at > 2 && at[1] == '/' && has_name(at + 2, end, name, size)) {
            return at;
        }
        at++;
    }
    return NULL;
}

/* In "<!--" a script may hold another (13.2.5.20 to 13.2.5.31): until "-->", "<script" opens it and "</script" closes
 * it. */
const char *
find_end_of_script(const char *at, const char *end)
{
    const size_t size = sizeof "script" - 1;
    bool escaped = false, inner = false;
    const char *dashes = at; /* those of "-->" are behind this */
    for (; at < end; at++) {
        if (!escaped) {
            at = memchr(at, '<', (size_t)(end - at));
            if (at == NULL) {
                return NULL;
            }
        }
        if (*at == '>' && escaped && at - dashes >= 2 && at[-1] == '-' && at[-2] == '-') {
            escaped = inner = false;
        }
        else if (*at == '<' && end - at > 3 && memcmp(at, "<!--", 4) == 0 && !escaped) {
            escaped = true;
            dashes = at + 2; /* "<!-->" is a start and an end */
        }
        else if (*at == '<' && end - at > 2 && at[1] == '/' && has_name(at + 2, end, "script", size)) {
            if (!inner) {
                return at;
            }
            inner = false;
        }
        else if (*at == '<' && escaped && has_name(at + 1, end, "script", size)) {
            inner = true;
        }
    }
    return NULL;
}
