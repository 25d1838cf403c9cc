/*
 * The text of an anchor is that of all that its element holds in the tree. Between its tags that is what stands there,
 * as long as nothing but text, comments, drawings and elements without rules of their own is there, each closed before
 * the one that holds it: then nothing closes the anchor early, copies it or moves something out of it. Whatever else is
 * found there is left to a parser that builds a tree.
 *
 * White space is that of Python's str.split(), so that the text is the same as without this module.
 */

#include "anchor.h"

#include <string.h>

void
open_anchor(struct anchor *anchor, PyObject *texts, PyObject *key)
{
    anchor->texts = texts;
    anchor->key = Py_NewRef(key);
    anchor->open = anchor->read = anchor->characters = anchor->size = 0;
    anchor->is_parted = false;
}

void
leave_anchor(struct anchor *anchor)
{
    anchor->texts = NULL;
    Py_CLEAR(anchor->key);
}

int
close_anchor(struct anchor *anchor)
{
    int done = 1;
    if (anchor->size > 0) {
        PyObject *text = PyUnicode_DecodeUTF8(anchor->line, (Py_ssize_t)anchor->size, "strict");
        if (text == NULL) {
            done = PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) ? 0 : -1;
            if (done == 0) {
                PyErr_Clear();
            }
        }
        else {
            done = PyDict_SetItem(anchor->texts, anchor->key, text) < 0 ? -1 : 1;
            Py_DECREF(text);
        }
    }
    leave_anchor(anchor);
    return done;
}

/* The bytes of the character that begins with this one; 0 if none does. */
static size_t
bytes_of_character(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/* Whether the character at `at` is white space to Python. */
static bool
is_any_space(const unsigned char *at)
{
    switch (at[0]) {
        case 0xC2: return at[1] == 0x85 || at[1] == 0xA0;
        case 0xE1: return at[1] == 0x9A && at[2] == 0x80;
        case 0xE2:
            if (at[1] == 0x80) {
                return (at[2] >= 0x80 && at[2] <= 0x8A) || at[2] == 0xA8 || at[2] == 0xA9 || at[2] == 0xAF;
            }
            return at[1] == 0x81 && at[2] == 0x9F;
        case 0xE3: return at[1] == 0x80 && at[2] == 0x80;
        default: return at[0] == ' ' || (at[0] >= '\t' && at[0] <= '\r') || (at[0] >= 0x1C && at[0] <= 0x1F);
    }
}

bool
add_to_line(struct anchor *anchor, struct text text)
{
    for (size_t i = 0, bytes; i < text.size && anchor->read < ANCHOR_TEXT_READ; i += bytes) {
        const unsigned char *at = (const unsigned char *)text.at + i;
        bytes = bytes_of_character(*at);
        if (bytes == 0 || bytes > text.size - i) {
            return false;
        }
        anchor->read++;
        if (is_any_space(at)) {
            anchor->is_parted = anchor->size > 0;
            continue;
        }
        if (anchor->is_parted) {
            anchor->is_parted = false;
            anchor->line[anchor->size++] = ' ';
            anchor->characters++;
        }
        if (anchor->characters < ANCHOR_TEXT_MOST) {
            memcpy(anchor->line + anchor->size, at, bytes);
            anchor->size += bytes;
            anchor->characters++;
        }
        if (anchor->characters == ANCHOR_TEXT_MOST) {
            anchor->read = ANCHOR_TEXT_READ; /* no more is looked at */
        }
    }
    return true;
}

bool
open_in_anchor(struct anchor *anchor, struct text name)
{
    uint64_t number;
    switch (inline_name(name, &number)) {
        case TAG_EMPTY: return true;
        case TAG_INLINE: break;
        default: return false;
    }
    if (anchor->open == ANCHOR_ELEMENTS_MOST) {
        return false;
    }
    anchor->of[anchor->open++] = number;
    return true;
}

bool
close_in_anchor(struct anchor *anchor, struct text name)
{
    uint64_t number;
    inline_name(name, &number);
    if (anchor->open == 0 || anchor->of[anchor->open - 1] != number) {
        return false;
    }
    anchor->open--;
    return true;
}
