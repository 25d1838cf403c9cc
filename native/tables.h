/* Where in its tables a page is: as much of the tree builder (HTML Standard, 13.2.6.4.9 to 15) as says what moves. */

#ifndef CRAWLER_NATIVE_TABLES_H
#define CRAWLER_NATIVE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "markup.h"

#define TABLES_MOST 128 /* in each other */

enum table_part {
    PART_TABLE,
    PART_SECTION,
    PART_ROW,
    PART_CELL,
    PART_CAPTION,
};

struct table {
    enum table_part part;
    enum tag section; /* of a section, row or cell */
    enum tag cell;
    size_t found;     /* what the page had told when the table began */
};

/* The open tables, the innermost last. */
struct tables {
    size_t open;
    struct table of[TABLES_MOST];
};

/* Take a start tag. False: there are too many tables in each other. `found`: how much the page has told so far. */
bool table_starts(struct tables *tables, enum tag tag, size_t found);

/* Take an end tag. */
void table_ends(struct tables *tables, enum tag tag);

/* Whether an element that begins here is moved out of the table, in front of it. */
bool is_moved_out(const struct tables *tables);

#endif
