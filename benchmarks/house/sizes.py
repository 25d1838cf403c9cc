#!/usr/bin/env python3
"""Print the code lines of crawler/ by package, next to the recorded ones; ``--record`` records them.

Blank lines, comments and docstrings do not count. It never fails: fewer things are the aim, not denser code.
"""

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from pathlib import Path

RECORDED = Path(__file__).with_name("sizes.json")
PACKAGE = Path(__file__).resolve().parents[2] / "crawler"
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """How many lines of a module hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for each in tokens if each.type not in LAYOUT for line in range(each.start[0], each.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            code.difference_update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(code)


def main() -> None:
    """Print a row for each package, the sum last."""
    now = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        first = path.relative_to(PACKAGE).parts[0]
        now["." if first.endswith(".py") else first] += code_lines(path.read_text("utf-8"))
    before = json.loads(RECORDED.read_text("utf-8"))
    if "--record" in sys.argv[1:]:
        RECORDED.write_text(json.dumps(dict(sorted(now.items())), indent=4) + "\n", "utf-8")
    print(f"{'code lines':12}{'recorded':>10}{'now':>10}{'more':>8}")
    for name in [*sorted(now | Counter(before)), "in all"]:
        was, is_ = (sum(each.values()) if name == "in all" else each.get(name, 0) for each in (before, now))
        print(f"{name:12}{was:10,}{is_:10,}{is_ - was:+8,}")


main()
