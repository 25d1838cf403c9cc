/*
 * In a drawing or a formula no element hides markup, "<![CDATA[" does, and "/>" closes an element. HTML in it is left
 * to a parser that builds a tree: whatever is found here holds text and foreign elements only.
 */

#include "foreign.h"

#include <string.h>

/* What ends a drawing where it begins (13.2.6.5, "b", "big" ...), and `font`, which does with some attributes. */
static const char *const breaking_out[] = {
    "b",    "big",  "blockquote", "body",  "br",      "center", "code", "dd",   "div",  "dl",     "dt",   "em",
    "embed", "font", "h1",        "h2",    "h3",      "h4",     "h5",   "h6",   "head", "hr",     "i",    "img",
    "li",   "listing", "menu",    "meta",  "nobr",    "ol",     "p",    "pre",  "ruby", "s",      "small", "span",
    "strong", "strike", "sub",    "sup",   "table",   "tt",     "u",    "ul",   "var",
};
static const char *const html_in_drawings[] = {"foreignobject", "desc", "title"};
static const char *const html_in_formulas[] = {"mi", "mo", "mn", "ms", "mtext", "annotation-xml"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool
is_one_of(struct text name, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_word(name, words[i])) {
            return true;
        }
    }
    return false;
}

static bool
is_same_name(struct text one, struct text other)
{
    if (one.size != other.size) {
        return false;
    }
    for (size_t i = 0; i < one.size; i++) {
        char a = one.at[i], b = other.at[i];
        bool letters = (a | 0x20) >= 'a' && (a | 0x20) <= 'z';
        if (a != b && !(letters && (a ^ b) == 0x20)) {
            return false;
        }
    }
    return true;
}

bool
open_foreign(struct foreign *foreign, struct text name)
{
    if (foreign->open == FOREIGN_MOST) {
        return false;
    }
    if (foreign->open == 0) {
        foreign->is_math = is_word(name, "math");
    }
    foreign->names[foreign->open++] = name;
    return true;
}

bool
close_foreign(struct foreign *foreign, struct text name)
{
    for (size_t i = foreign->open; i > 0; i--) {
        if (is_same_name(foreign->names[i - 1], name)) {
            foreign->open = i - 1;
            return true;
        }
    }
    return false;
}

bool
is_html_again(const struct foreign *foreign, struct text name)
{
    struct text current = foreign->names[foreign->open - 1];
    bool in_label = foreign->is_math ? is_one_of(current, html_in_formulas, COUNT(html_in_formulas))
                                     : is_one_of(current, html_in_drawings, COUNT(html_in_drawings));
    return in_label || is_one_of(name, breaking_out, COUNT(breaking_out));
}

bool
ends_foreign(struct text name)
{
    return is_word(name, "br") || is_word(name, "p");
}

bool
may_hold_html(const struct foreign *foreign)
{
    for (size_t i = 0; i < foreign->open; i++) {
        struct text name = foreign->names[i];
        if (is_one_of(name, html_in_formulas, COUNT(html_in_formulas)) ||
            is_one_of(name, html_in_drawings, COUNT(html_in_drawings))) {
            return true;
        }
    }
    return false;
}
