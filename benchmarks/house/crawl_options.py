#!/usr/bin/env python3
"""Print ``crawler/library/crawl_options.py``, the types of the keyword arguments of ``crawler.Crawl`` and ``run``, made
of the flags and their settings; ``--record`` writes the file."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from crawler.base.settings.parts import KEPT, TABLES, HookSettings
from crawler.base.units import Quantity
from crawler.cli.options import FLAGS
from crawler.library.keyword_options import HOOKS, UNUSED

WRITTEN = Path(__file__).resolve().parents[2] / "crawler" / "library" / "crawl_options.py"
HEAD = '''"""The keyword arguments of a crawl. ``benchmarks/house/crawl_options.py --record`` writes this file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from crawler.engine.hooks.page_view import Page
    from crawler.engine.link_judge import Link
    from crawler.engine.user_code import PreviousVisit

Headers = Mapping[str, str] | None
Output = OUTPUT


class CrawlOptions(TypedDict, total=False):
    """The keyword arguments that ``Crawl`` describes. None means that an argument is not given."""

    config: str | PathLike[str] | None
    types: Sequence[str]
    statuses: Sequence[str]
    progress: bool
'''
FUNCTIONS = {  # what each is called with, and what it returns
    "filter_link": ("Link", "bool"),
    "score_links": ("list[Link]", "Iterable[float]"),
    "score_page": ("Page", "float"),
    "request_headers": ("str", "Headers"),
    "is_changed": ("Page, PreviousVisit", "bool"),
}


def main() -> None:
    """Print or write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the file")
    if parser.parse_args().record:
        WRITTEN.write_text(made(), "utf-8")
    else:
        sys.stdout.write(made())


def made() -> str:
    """The text of the file."""
    return HEAD.replace("OUTPUT", _literal(name for name in KEPT if name not in UNUSED)) + "\n".join(_fields()) + "\n"


def _fields() -> Iterator[str]:
    for flag, (table, key, arguments) in FLAGS.items():
        name = flag.removeprefix("--").replace("-", "_")
        if table != "partitions" and name not in UNUSED:
            yield f"    {name}: {_kind(get_type_hints(TABLES[table], include_extras=True)[key], arguments)} | None"
    for name, (given, answer) in FUNCTIONS.items():
        yield f"    {name}: str | Callable[[{given}], {answer} | Awaitable[{answer}]] | None"
    hooks = get_type_hints(HookSettings, include_extras=True)
    for name in HOOKS:
        if name not in FUNCTIONS:
            yield f"    {name}: {_kind(hooks[name], {})} | None"


def _kind(hint: Any, arguments: dict[str, Any]) -> str:
    """The type of an argument: what its setting takes, and what its flag may be."""
    stated, plain = _stated(hint), _plain(hint)
    words = next((each for each in stated if isinstance(each, tuple)), ())
    if words == KEPT:
        return "Output | Iterable[Output]"
    base = _literal(words) if words else "str" if get_origin(plain) is tuple else plain.__name__
    if get_origin(plain) is tuple:
        return f"{base} | Iterable[{base}]" if arguments.get("action") == "append" else f"Sequence[{base}]"
    if "const" in arguments:
        return base.replace("[", "[True, ")
    if arguments.get("metavar") == "FILE":
        return "str | Path"
    return f"{base} | str" if any(isinstance(each, Quantity) for each in stated) else base


def _literal(words: Iterable[str]) -> str:
    return f"Literal[{', '.join(map(json.dumps, words))}]"


def _stated(hint: Any) -> list[Any]:
    """What is stated of a type beside it, also inside of a union."""
    parts = [each for each in get_args(hint) if each is not NoneType] if get_origin(hint) is not Annotated else []
    return [*getattr(hint, "__metadata__", ()), *(said for part in parts for said in _stated(part))]


def _plain(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if isinstance(hint, UnionType) or NoneType in get_args(hint):
        return _plain(next(each for each in get_args(hint) if each is not NoneType))
    return hint


if __name__ == "__main__":
    main()
