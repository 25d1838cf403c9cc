/*
 * The text of an anchor is that of all that its element holds in the tree. This is the text between its tags, as long
 * as they hold nothing but text, comments, drawings and elements without rules of their own, each closed before the one
 * that holds it: then nothing closes the anchor early, copies it or moves something out of it. The anchor may hold
 * blocks too, where no paragraph is open that a block would close. Whatever else is found is left to a parser that
 * builds a tree.
 *
 * White space is that of Python's str.split(), so that the text is the same as without this module.
 */

#include "anchor.h"

#include <string.h>

bool
may_matter(const struct paragraph *paragraph, struct text name)
{
    return paragraph->may_be_open || (name.size == 1 && (*name.at | 0x20) == 'p');
}

void
paragraph_starts(struct paragraph *paragraph, enum tag name)
{
    switch (name) {
        case TAG_BLOCK:
        case TAG_HEADING: paragraph->may_be_open = false; break;
        case TAG_BUTTON: hide_paragraph(paragraph); break;
        case TAG_PARAGRAPH: paragraph->may_be_open = true; break;
        default: break;
    }
}

void
hide_paragraph(struct paragraph *paragraph)
{
    paragraph->may_be_hidden = paragraph->may_be_hidden || paragraph->may_be_open;
}

void
open_anchor(struct anchor *anchor, PyObject *texts, PyObject *key, const struct paragraph *around)
{
    anchor->may_hold_blocks = !around->may_be_open && !around->may_be_hidden;
    anchor->has_paragraph = false;
    anchor->blocks = 0;
    anchor->texts = Py_NewRef(texts);
    anchor->key = Py_NewRef(key);
    anchor->open = anchor->read = anchor->characters = anchor->size = 0;
    anchor->is_parted = false;
}

void
leave_anchor(struct anchor *anchor)
{
    Py_CLEAR(anchor->texts);
    Py_CLEAR(anchor->key);
}

int
close_anchor(struct anchor *anchor)
{
    int done = anchor->blocks == 0;
    if (done > 0 && anchor->size > 0) {
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
        bool is_plain = *at > ' ' && *at < 0x80; /* nearly all are: ASCII, and no space */
        bytes = is_plain ? 1 : bytes_of_character(*at);
        if (bytes == 0 || bytes > text.size - i) {
            return false;
        }
        anchor->read++;
        if (!is_plain && is_any_space(at)) {
            anchor->is_parted = anchor->size > 0;
            continue;
        }
        if (anchor->is_parted) {
            anchor->is_parted = false;
            anchor->line[anchor->size++] = ' ';
            anchor->characters++;
        }
        if (anchor->characters < ANCHOR_TEXT_MOST) {
            if (is_plain) {
                anchor->line[anchor->size] = (char)*at;
            }
            else {
                memcpy(anchor->line + anchor->size, at, bytes);
            }
            anchor->size += bytes;
            anchor->characters++;
        }
        if (anchor->characters == ANCHOR_TEXT_MOST) {
            anchor->read = ANCHOR_TEXT_READ; /* no more is looked at */
        }
    }
    return true;
}

/* Whether a block may begin: it closes no paragraph, and no other heading. */
static bool
may_open_block(const struct anchor *anchor, enum tag tag)
{
    uint64_t last = anchor->open == 0 ? 0 : anchor->of[anchor->open - 1];
    bool in_heading = (last & 0xFF) == 'h' && last >> 8 >= '1' && last >> 8 <= '6';
    return anchor->may_hold_blocks && !anchor->has_paragraph && !(tag == TAG_HEADING && in_heading);
}

bool
open_in_anchor(struct anchor *anchor, struct text name)
{
    uint64_t number;
    enum tag tag = name_in_anchor(name, &number);
    switch (tag) {
        case TAG_EMPTY: return true;
        case TAG_INLINE: break;
        case TAG_BLOCK:
        case TAG_HEADING:
        case TAG_PARAGRAPH:
            if (!may_open_block(anchor, tag)) {
                return false;
            }
            anchor->has_paragraph = tag == TAG_PARAGRAPH;
            anchor->blocks++;
            break;
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
    enum tag tag = name_in_anchor(name, &number);
    if (anchor->open == 0 || anchor->of[anchor->open - 1] != number) {
        return false;
    }
    anchor->open--;
    if (tag != TAG_INLINE) {
        anchor->blocks--;
        anchor->has_paragraph = anchor->has_paragraph && tag != TAG_PARAGRAPH;
    }
    return true;
}
