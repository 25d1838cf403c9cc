/*
 * What stands in a table but in no cell or caption is "foster parented": it comes before the table, so the order of
 * links is not that of their tags. Whether a tag is in a cell depends on the tags of tables alone, since all of them
 * close what is open in a cell. An end tag counts only if its element is open in the innermost table.
 */

#include "tables.h"

static bool
is_in_cell_or_caption(const struct table *table)
{
    return table->part == PART_CELL || table->part == PART_CAPTION;
}

bool
is_moved_out(const struct tables *tables)
{
    return tables->open > 0 && !is_in_cell_or_caption(&tables->of[tables->open - 1]);
}

/* Close what is open in the table down to a section, and open one if there is none. */
static void
open_section(struct table *table)
{
    if (table->part == PART_TABLE || table->part == PART_CAPTION) {
        table->section = TAG_SECTION_BODY;
    }
    table->part = PART_SECTION;
}

static bool
open_table(struct tables *tables, size_t found)
{
    if (is_moved_out(tables)) { /* a table closes the one that it stands in */
        tables->open--;
    }
    if (tables->open == TABLES_MOST) {
        return false;
    }
    tables->of[tables->open++] = (struct table){.part = PART_TABLE, .found = found};
    return true;
}

bool
table_starts(struct tables *tables, enum tag tag, size_t found)
{
    if (tag == TAG_TABLE) {
        return open_table(tables, found);
    }
    if (tables->open == 0) {
        return true;
    }
    struct table *table = &tables->of[tables->open - 1];
    switch (tag) {
        case TAG_CAPTION:
            table->part = PART_CAPTION;
            break;
        case TAG_COLUMN:
        case TAG_COLUMNS:
            table->part = PART_TABLE;
            break;
        case TAG_SECTION_BODY:
        case TAG_SECTION_FOOT:
        case TAG_SECTION_HEAD:
            table->part = PART_SECTION;
            table->section = tag;
            break;
        case TAG_ROW:
            open_section(table);
            table->part = PART_ROW;
            break;
        default: /* a cell */
            open_section(table);
            table->part = PART_CELL;
            table->cell = tag;
    }
    return true;
}

void
table_ends(struct tables *tables, enum tag tag)
{
    if (tables->open == 0) {
        return;
    }
    struct table *table = &tables->of[tables->open - 1];
    enum table_part part = table->part;
    bool has_row = part == PART_ROW || part == PART_CELL;
    switch (tag) {
        case TAG_TABLE:
            tables->open--;
            break;
        case TAG_CAPTION:
            if (part == PART_CAPTION) {
                table->part = PART_TABLE;
            }
            break;
        case TAG_SECTION_BODY:
        case TAG_SECTION_FOOT:
        case TAG_SECTION_HEAD:
            if ((part == PART_SECTION || has_row) && table->section == tag) {
                table->part = PART_TABLE;
            }
            break;
        case TAG_ROW:
            if (has_row) {
                table->part = PART_SECTION;
            }
            break;
        case TAG_CELL_TD:
        case TAG_CELL_TH:
            if (part == PART_CELL && table->cell == tag) {
                table->part = PART_ROW;
            }
            break;
        default: /* the end tags of columns close nothing that matters here */
            break;
    }
}
