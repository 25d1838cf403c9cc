/* The markup of a page, as the tokeniser of the HTML Standard (13.2.5) cuts it. No tree, and nothing of Python. */

#ifndef CRAWLER_NATIVE_MARKUP_H
#define CRAWLER_NATIVE_MARKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the page. */
struct text {
    const char *at;
    size_t size;
};

/* What the name of a tag means to the reader of a page. */
enum tag {
    TAG_OTHER,
    TAG_A,
    TAG_AREA,
    TAG_AUDIO,
    TAG_BASE,
    TAG_BLOCK,        /* address, article, div and so on: told by name_in_anchor only */
    TAG_BREAKS_OUT,   /* one that ends a drawing where it begins, such as b, div, p; so do embed, img, meta, table */
    TAG_BUTTON,       /* told by name_in_anchor only */
    TAG_CAPTION,
    TAG_COLUMN,       /* col */
    TAG_COLUMNS,      /* colgroup */
    TAG_CELL_TD,
    TAG_CELL_TH,
    TAG_EMBED,
    TAG_EMPTY,        /* br, wbr: told by name_in_anchor only */
    TAG_FRAME,
    TAG_FRAMESET,
    TAG_HEADING,      /* h1 to h6: told by name_in_anchor only */
    TAG_HTML,
    TAG_IFRAME,
    TAG_IMAGE,
    TAG_IMG,
    TAG_INLINE,       /* one of many that hold text, such as b, span: told by name_in_anchor only */
    TAG_INPUT,
    TAG_LINK,
    TAG_MARKER,       /* applet, marquee: they part formatting elements as a cell does; object too */
    TAG_MATH,
    TAG_META,
    TAG_OBJECT,
    TAG_PARAGRAPH,    /* p: told by name_in_anchor only */
    TAG_PLAINTEXT,
    TAG_RAW,          /* noembed, noframes, style, textarea, xmp: no markup in it */
    TAG_ROW,
    TAG_SCRIPT,
    TAG_SECTION_BODY, /* tbody */
    TAG_SECTION_FOOT,
    TAG_SECTION_HEAD,
    TAG_SOURCE,
    TAG_SVG,
    TAG_TABLE,
    TAG_TEMPLATE,
    TAG_TITLE,
    TAG_TRACK,
    TAG_VIDEO,
};

/* The attributes that matter. */
enum attribute {
    ATTRIBUTE_CHARSET,
    ATTRIBUTE_CONTENT,
    ATTRIBUTE_DATA,
    ATTRIBUTE_HREF,
    ATTRIBUTE_HTTP_EQUIV,
    ATTRIBUTE_LANG,
    ATTRIBUTE_NAME,
    ATTRIBUTE_POSTER,
    ATTRIBUTE_REL,
    ATTRIBUTE_SRC,
    ATTRIBUTE_SRCSET,
    ATTRIBUTE_TYPE,
    ATTRIBUTES,
};

/* The attributes of a tag as they are written. One that the tag has not is at NULL; one without a value, as in "<a b>"
 * and "<a b=>", is empty, and has no bit in `valued`. */
struct attributes {
    struct text of[ATTRIBUTES];
    unsigned valued;
};

/* Where the name of a tag ends, which begins at `at`; tells what it means. TAG_BREAKS_OUT is told in a drawing only. */
const char *read_name(const char *at, const char *end, bool in_drawing, enum tag *tag);

/* What the name of a tag means in an anchor whose text is wanted, TAG_OTHER if it is not known there. The number is the
 * same for each name of up to eight bytes in any case, and 0 for a longer one. */
enum tag name_in_anchor(struct text name, uint64_t *number);

/* Where a tag ends, after its ">", or NULL if the page ends in it. `at` is behind its name. If `found` is not NULL, it
 * gets the attributes; if `self_closing` is not NULL, it is set if the tag ends in "/>". */
const char *read_attributes(const char *at, const char *end, struct attributes *found, bool *self_closing);

/* The same for a tag that does not matter; `at` is at its name. */
const char *skip_tag(const char *at, const char *end);

/* Where a comment ends, or NULL if the page ends in it. `at` is behind "<!--". */
const char *skip_comment(const char *at, const char *end);

/* Where the end tag of an element begins that holds no markup, or NULL. The name is in lower case. */
const char *find_end_tag(const char *at, const char *end, const char *name, size_t size);

/* The same for a script, which may hold another with its end tag inside of "<!--". */
const char *find_end_of_script(const char *at, const char *end);

bool is_space(char c);

static inline bool
is_letter(char c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* Whether the text is this word in lower case, whatever its own case. */
bool is_word(struct text text, const char *word);

#endif
