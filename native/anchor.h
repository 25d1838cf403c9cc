/* The text of an anchor, as it is put in order for a record: on one line, and cut. */

#ifndef CRAWLER_NATIVE_ANCHOR_H
#define CRAWLER_NATIVE_ANCHOR_H

#include "module.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "markup.h"

#define ANCHOR_TEXT_MOST 200    /* characters that are kept: crawler.web.links.described.TEXT_MOST */
#define ANCHOR_TEXT_READ 1600   /* ... and that are read for them: see long_text there */
#define ANCHOR_ELEMENTS_MOST 32 /* in each other, in an anchor */
#define CHARACTER_BYTES 4       /* of UTF-8 at most */

/* The anchor that is open, if its text is wanted. */
struct anchor {
    PyObject *texts;   /* dict: where the text belongs; NULL if no text is wanted */
    PyObject *key;
    bool may_hold_blocks; /* no paragraph is open around it */
    bool has_paragraph;   /* one is open in it */
    size_t blocks;        /* that are open in it, with that */
    size_t open;          /* elements in it */
    uint64_t of[ANCHOR_ELEMENTS_MOST]; /* their names, as numbers */
    size_t read;       /* characters of its text */
    size_t characters; /* in `line` */
    size_t size;
    bool is_parted;    /* white space was read behind them */
    char line[CHARACTER_BYTES * ANCHOR_TEXT_MOST];
};

/* Whether a paragraph may be open that a block would close: an anchor in it, too. */
struct paragraph {
    bool may_be_open;
    bool may_be_hidden; /* by a table or a button, behind which it is open again */
};

/* Whether a start tag outside of anchors may change it: nearly none does while none may be open. */
bool may_matter(const struct paragraph *paragraph, struct text name);

/* Take a start tag outside of anchors. `name`: what name_in_anchor told. */
void paragraph_starts(struct paragraph *paragraph, enum tag name);

/* An element begins in which a paragraph that is open is hidden. */
void hide_paragraph(struct paragraph *paragraph);

/* Begin to collect the text of an anchor for this key. */
void open_anchor(struct anchor *anchor, PyObject *texts, PyObject *key, const struct paragraph *around);

/* Put the text where it belongs. -1 with an exception, 0 if it is not UTF-8, or a block is open. */
int close_anchor(struct anchor *anchor);

/* Forget the anchor. */
void leave_anchor(struct anchor *anchor);

/* Add text whose references are decoded. False if it is not UTF-8. */
bool add_to_line(struct anchor *anchor, struct text text);

/* Whether a start tag with this name is understood in an anchor. */
bool open_in_anchor(struct anchor *anchor, struct text name);

/* Whether an end tag closes the element that was opened last. */
bool close_in_anchor(struct anchor *anchor, struct text name);

#endif
