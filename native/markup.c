/*
 * The tokeniser's states that matter to links: tags with their attributes, comments, and elements without markup.
 *
 * Each function reads on from a place in the page and returns the place behind what it has read. None looks behind the
 * end, and none goes back, so all together take time in proportion to the page. Carriage returns count as line feeds,
 * which the input stream makes of them (13.2.3.5).
 */

#include "markup.h"

#include <stdint.h>
#include <string.h>

#define LOWER 0x20 /* makes a letter lower-case, and no other byte a letter */
#define LONG_NAME 9 /* bytes that no number holds */

/* A name of up to eight bytes as a number. */
#define BYTE(c, at) ((uint64_t)(unsigned char)(c) << 8 * (at))
#define NAME2(a, b) (BYTE(a, 0) | BYTE(b, 1))
#define NAME3(a, b, c) (NAME2(a, b) | BYTE(c, 2))
#define NAME4(a, b, c, d) (NAME3(a, b, c) | BYTE(d, 3))
#define NAME5(a, b, c, d, e) (NAME4(a, b, c, d) | BYTE(e, 4))
#define NAME6(a, b, c, d, e, f) (NAME5(a, b, c, d, e) | BYTE(f, 5))
#define NAME7(a, b, c, d, e, f, g) (NAME6(a, b, c, d, e, f) | BYTE(g, 6))
#define NAME8(a, b, c, d, e, f, g, h) (NAME7(a, b, c, d, e, f, g) | BYTE(h, 7))

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

/* What ends a drawing where it begins (13.2.6.5), and `font`, which does with some attributes. */
static enum tag
breaking_tag_named(uint64_t name)
{
    switch (name) {
        case BYTE('b', 0):
        case NAME3('b', 'i', 'g'):
        case NAME4('b', 'o', 'd', 'y'):
        case NAME2('b', 'r'):
        case NAME6('c', 'e', 'n', 't', 'e', 'r'):
        case NAME4('c', 'o', 'd', 'e'):
        case NAME2('d', 'd'):
        case NAME3('d', 'i', 'v'):
        case NAME2('d', 'l'):
        case NAME2('d', 't'):
        case NAME2('e', 'm'):
        case NAME5('e', 'm', 'b', 'e', 'd'):
        case NAME4('f', 'o', 'n', 't'):
        case NAME2('h', '1'):
        case NAME2('h', '2'):
        case NAME2('h', '3'):
        case NAME2('h', '4'):
        case NAME2('h', '5'):
        case NAME2('h', '6'):
        case NAME4('h', 'e', 'a', 'd'):
        case NAME2('h', 'r'):
        case BYTE('i', 0):
        case NAME3('i', 'm', 'g'):
        case NAME2('l', 'i'):
        case NAME7('l', 'i', 's', 't', 'i', 'n', 'g'):
        case NAME4('m', 'e', 'n', 'u'):
        case NAME4('n', 'o', 'b', 'r'):
        case NAME2('o', 'l'):
        case BYTE('p', 0):
        case NAME3('p', 'r', 'e'):
        case NAME4('r', 'u', 'b', 'y'):
        case BYTE('s', 0):
        case NAME5('s', 'm', 'a', 'l', 'l'):
        case NAME4('s', 'p', 'a', 'n'):
        case NAME6('s', 't', 'r', 'o', 'n', 'g'):
        case NAME6('s', 't', 'r', 'i', 'k', 'e'):
        case NAME3('s', 'u', 'b'):
        case NAME3('s', 'u', 'p'):
        case NAME2('t', 't'):
        case BYTE('u', 0):
        case NAME2('u', 'l'):
        case NAME3('v', 'a', 'r'): return TAG_BREAKS_OUT;
        default: return TAG_OTHER;
    }
}

static enum tag
tag_named(uint64_t name)
{
    switch (name) {
        case BYTE('a', 0): return TAG_A;
        case NAME4('a', 'r', 'e', 'a'): return TAG_AREA;
        case NAME4('b', 'a', 's', 'e'): return TAG_BASE;
        case NAME7('c', 'a', 'p', 't', 'i', 'o', 'n'): return TAG_CAPTION;
        case NAME3('c', 'o', 'l'): return TAG_COLUMN;
        case NAME8('c', 'o', 'l', 'g', 'r', 'o', 'u', 'p'): return TAG_COLUMNS;
        case NAME2('t', 'd'): return TAG_CELL_TD;
        case NAME2('t', 'h'): return TAG_CELL_TH;
        case NAME5('f', 'r', 'a', 'm', 'e'): return TAG_FRAME;
        case NAME8('f', 'r', 'a', 'm', 'e', 's', 'e', 't'): return TAG_FRAMESET;
        case NAME4('h', 't', 'm', 'l'): return TAG_HTML;
        case NAME6('i', 'f', 'r', 'a', 'm', 'e'): return TAG_IFRAME;
        case NAME4('l', 'i', 'n', 'k'): return TAG_LINK;
        case NAME6('a', 'p', 'p', 'l', 'e', 't'):
        case NAME7('m', 'a', 'r', 'q', 'u', 'e', 'e'):
        case NAME6('o', 'b', 'j', 'e', 'c', 't'): return TAG_MARKER;
        case NAME4('m', 'a', 't', 'h'): return TAG_MATH;
        case NAME4('m', 'e', 't', 'a'): return TAG_META;
        case NAME7('n', 'o', 'e', 'm', 'b', 'e', 'd'):
        case NAME8('n', 'o', 'f', 'r', 'a', 'm', 'e', 's'):
        case NAME5('s', 't', 'y', 'l', 'e'):
        case NAME8('t', 'e', 'x', 't', 'a', 'r', 'e', 'a'):
        case NAME3('x', 'm', 'p'): return TAG_RAW;
        case NAME2('t', 'r'): return TAG_ROW;
        case NAME6('s', 'c', 'r', 'i', 'p', 't'): return TAG_SCRIPT;
        case NAME5('t', 'b', 'o', 'd', 'y'): return TAG_SECTION_BODY;
        case NAME5('t', 'f', 'o', 'o', 't'): return TAG_SECTION_FOOT;
        case NAME5('t', 'h', 'e', 'a', 'd'): return TAG_SECTION_HEAD;
        case NAME3('s', 'v', 'g'): return TAG_SVG;
        case NAME5('t', 'a', 'b', 'l', 'e'): return TAG_TABLE;
        case NAME8('t', 'e', 'm', 'p', 'l', 'a', 't', 'e'): return TAG_TEMPLATE;
        case NAME5('t', 'i', 't', 'l', 'e'): return TAG_TITLE;
        default: return breaking_tag_named(name);
    }
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
read_name(const char *at, const char *end, enum tag *tag)
{
    const char *first = at;
    uint64_t name = 0;
    while (at < end && (kind_of(*at) & (SPACE | SLASH | CLOSE)) == 0) {
        if (at - first < 8) {
            name |= BYTE(*at | LOWER, at - first);
        }
        at++;
    }
    *tag = at - first < LONG_NAME ? tag_named(name) : tag_with_long_name((struct text){first, (size_t)(at - first)});
    return at;
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
                                           : ATTRIBUTES;
        case 7: return is_word(name, "content") ? ATTRIBUTE_CONTENT : ATTRIBUTES;
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
