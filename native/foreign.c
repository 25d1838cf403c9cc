/*
 * In a drawing or a formula no element hides markup, "<![CDATA[" does, and "/>" closes an element. HTML in it is left
 * to a parser that builds a tree: whatever is found here holds text and foreign elements only.
 */

#include "foreign.h"

static const char *const labels_of_drawings[] = {"foreignobject", "desc", "title"};
static const char *const labels_of_formulas[] = {"mi", "mo", "mn", "ms", "mtext", "annotation-xml"};

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

/* Whether the name is the same wherever its bytes are: others may stand for U+FFFD. */
static bool
is_plain_name(struct text name)
{
    for (size_t i = 0; i < name.size; i++) {
        if ((signed char)name.at[i] <= 0) {
            return false;
        }
    }
    return true;
}

bool
open_foreign(struct foreign *foreign, struct text name)
{
    if (foreign->open == FOREIGN_MOST || !is_plain_name(name)) {
        return false;
    }
    if (foreign->open == 0) {
        foreign->is_math = is_word(name, "math");
    }
    bool in_drawings = is_one_of(name, labels_of_drawings, COUNT(labels_of_drawings));
    bool in_formulas = is_one_of(name, labels_of_formulas, COUNT(labels_of_formulas));
    bool in_label = foreign->open > 0 && foreign->of[foreign->open - 1].in_label;
    foreign->of[foreign->open++] = (struct foreign_element){
        .name = name,
        .is_label = foreign->is_math ? in_formulas : in_drawings,
        .in_label = in_label || in_drawings || in_formulas,
    };
    return true;
}

bool
close_foreign(struct foreign *foreign, struct text name)
{
    for (size_t i = foreign->open; i > 0; i--) {
        if (is_same_name(foreign->of[i - 1].name, name)) {
            foreign->open = i - 1;
            return true;
        }
    }
    return false;
}

bool
is_html_again(const struct foreign *foreign, enum tag tag)
{
    const struct foreign_element *current = &foreign->of[foreign->open - 1];
    switch (tag) {
        case TAG_BREAKS_OUT:
        case TAG_EMBED:
        case TAG_IMG:
        case TAG_META:
        case TAG_TABLE: return true;
        /* In what seems to be a label to those who look at names alone, it is not agreed whose these are. */
        case TAG_BASE:
        case TAG_TITLE: return current->in_label;
        default: return current->is_label;
    }
}

bool
ends_foreign(struct text name)
{
    return is_word(name, "br") || is_word(name, "p");
}
