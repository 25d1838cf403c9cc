"""Writes ``entities.h``, the named character references of the HTML Standard, from the standard library's table.

    python native/make_entities.py > native/entities.h

A test says so when the file is not what this writes.
"""

from __future__ import annotations

import sys
from html.entities import html5


def header() -> str:
    """The whole file."""
    names = sorted(html5)
    starts = [sum(1 for name in names if name[0] < chr(letter)) for letter in range(ord("A"), ord("z") + 2)]
    rows = [f'    {{"{name}", {len(name)}, "{_escaped(html5[name])}"}},' for name in names]
    return "\n".join(
        [
            "/* The named character references of the HTML Standard. Written by make_entities.py: do not edit. */",
            "",
            "#ifndef CRAWLER_NATIVE_ENTITIES_H",
            "#define CRAWLER_NATIVE_ENTITIES_H",
            "",
            f"#define ENTITY_LONGEST {max(map(len, names))}",
            "",
            "/* Without the ampersand, in the order of their bytes; what they mean is in UTF-8. */",
            "static const struct entity {",
            "    const char *name;",
            "    unsigned char size;",
            "    const char *means;",
            "} entities[] = {",
            *rows,
            "};",
            "",
            "/* Where the names begin whose first byte is 'A', 'B' and so on up to 'z'; then their number. */",
            "static const unsigned short entity_starts[] = {",
            *("    " + ", ".join(map(str, starts[at : at + 12])) + "," for at in range(0, len(starts), 12)),
            "};",
            "",
            "#endif",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


if __name__ == "__main__":
    sys.stdout.write(header())
