"""Writes ``names.h``: what the names of tags mean, as tables in which a name is found by one look.

    python native/make_names.py > native/names.h

A name of up to eight bytes is a number, the first byte the lowest. Its place in a table is the upper bits of its
product with a multiplier, which is tried out here until no two names have the same place. Most tags mean nothing, and a
search that compares names one after the other mispredicts branches at nearly all of them. A test says so when the file
is not what this writes.
"""

from __future__ import annotations

import random
import sys

BITS = 8  # of a place
MEANINGS = {
    "TAG_A": "a",
    "TAG_AREA": "area",
    "TAG_AUDIO": "audio",
    "TAG_BASE": "base",
    "TAG_CAPTION": "caption",
    "TAG_COLUMN": "col",
    "TAG_COLUMNS": "colgroup",
    "TAG_EMBED": "embed",
    "TAG_CELL_TD": "td",
    "TAG_CELL_TH": "th",
    "TAG_FRAME": "frame",
    "TAG_FRAMESET": "frameset",
    "TAG_HTML": "html",
    "TAG_IFRAME": "iframe",
    "TAG_IMAGE": "image",
    "TAG_IMG": "img",
    "TAG_INPUT": "input",
    "TAG_LINK": "link",
    "TAG_MARKER": "applet marquee",
    "TAG_MATH": "math",
    "TAG_META": "meta",
    "TAG_OBJECT": "object",
    "TAG_RAW": "noembed noframes style textarea xmp",
    "TAG_ROW": "tr",
    "TAG_SCRIPT": "script",
    "TAG_SECTION_BODY": "tbody",
    "TAG_SECTION_FOOT": "tfoot",
    "TAG_SECTION_HEAD": "thead",
    "TAG_SOURCE": "source",
    "TAG_SVG": "svg",
    "TAG_TABLE": "table",
    "TAG_TEMPLATE": "template",
    "TAG_TITLE": "title",
    "TAG_TRACK": "track",
    "TAG_VIDEO": "video",
}
# What ends a drawing where it begins (HTML Standard, 13.2.6.5), and `font`, which does with some attributes. `embed`,
# `img`, `meta` and `table` do too, and `blockquote`, whose name is too long.
BREAKING = {
    "TAG_BREAKS_OUT": "b big body br center code dd div dl dt em font h1 h2 h3 h4 h5 h6 head hr i li listing "
    "menu nobr ol p pre ruby s small span strong strike sub sup tt u ul var"
}
# What may stand in an anchor whose text is wanted: elements that have no rules of their own, formatting elements (which
# have none as long as they are closed in order), and those that hold nothing. Blocks end a paragraph, which would close
# an anchor that stands in one; a button hides it from them.
IN_ANCHORS = {
    "TAG_BLOCK": "address article aside center details div figure footer header main nav section summary",
    "TAG_BUTTON": "button",
    "TAG_EMPTY": "br wbr",
    "TAG_HEADING": "h1 h2 h3 h4 h5 h6",
    "TAG_INLINE": "abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark output picture q s "
    "samp small span strike strong sub sup time tt u var",
    "TAG_PARAGRAPH": "p",
}


def header() -> str:
    """The whole file."""
    return "\n".join(
        [
            "/* What the names of tags mean. Written by make_names.py, which says how to look here: do not edit. */",
            "",
            "#ifndef CRAWLER_NATIVE_NAMES_H",
            "#define CRAWLER_NATIVE_NAMES_H",
            "",
            "#include <stdint.h>",
            "",
            '#include "markup.h"',
            "",
            f"#define NAME_SHIFT {64 - BITS}",
            "",
            "struct name {",
            "    uint64_t name;",
            "    enum tag tag;",
            "};",
            "",
            *_table("NAMES", "names", MEANINGS),
            *_table("BREAKING_NAMES", "breaking_names", BREAKING),
            *_table("ANCHOR_NAMES", "anchor_names", IN_ANCHORS),
            "#endif",
            "",
        ]
    )


def _table(macro: str, table: str, meanings: dict[str, str]) -> list[str]:
    tags = {name: tag for tag, names in meanings.items() for name in names.split()}
    multiplier, places = _places(list(tags))
    rows = [f"    [{place}] = {{0x{_number(name):x}, {tags[name]}}}, /* {name} */" for place, name in places.items()]
    head = f"static const struct name {table}[{2**BITS}] = {{"
    return [f"#define {macro}_MULTIPLIER UINT64_C(0x{multiplier:016x})", "", head, *rows, "};", ""]


def _number(name: str) -> int:
    return int.from_bytes(name.encode("ascii"), "little")


def _places(names: list[str]) -> tuple[int, dict[int, str]]:
    """The multiplier, and what is at each place, in order."""
    chance = random.Random(1)
    while True:
        multiplier = chance.getrandbits(64) | 1
        places = {(_number(name) * multiplier) % 2**64 >> 64 - BITS: name for name in names}
        if len(places) == len(names):
            return multiplier, dict(sorted(places.items()))


if __name__ == "__main__":
    sys.stdout.write(header())
