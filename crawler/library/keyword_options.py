"""Converts keyword arguments of a program into settings of a crawl, as the command line converts flags."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.faults import UserFault
from crawler.base.settings.load import settings_from
from crawler.base.settings.parts import TABLES, Settings
from crawler.cli.crawl import build_settings
from crawler.cli.options import FLAGS, STDOUT, Giver
from crawler.cli.toml_lines import FileSource
from crawler.engine.hooks.loaded import ARGUMENTS, load_hooks
from crawler.engine.hooks.named_code import NamedCode
from crawler.url.scope.store_choice import StoreChoice

_NAMES = {flag.removeprefix("--").replace("-", "_"): arguments for flag, (_, _, arguments) in FLAGS.items()}
_FUNCTIONS = tuple(name for name in ARGUMENTS if name != "on_page")
HOOKS = (
    *sorted(_FUNCTIONS),
    "relevant_score",
    "on_error",
    "on_page_timeout",
)  # settings of [hooks] that are also arguments
UNUSED = ("on_page", "wacz")  # a flag and an output that programs cannot use
_PLACE = "keyword arguments"
_ARGUMENTS = Giver(_PLACE, lambda flag: f"argument {flag.removeprefix('--').replace('-', '_')}")
_SETTING = re.compile(r"argument (\w+): [\w.]+")  # how error messages name the argument and its setting
_LISTS = frozenset(name for name, arguments in _NAMES.items() if arguments.get("action") == "append") | {"output"}


def settings_of(directory: Path, config: Path | None, options: Mapping[str, Any]) -> Settings:
    """Return the settings of a crawl in the directory. ``options`` maps the names of flags, with ``_`` for ``-``, to
    values; None means that the flag is not given, and a flag that may be repeated takes a list.

    Raises TypeError for an unknown name, and ValueError if a value is invalid or the existing job cannot resume with
    it."""
    given = {}
    for name, value in options.items():
        if name not in _NAMES:
            raise TypeError(f"a crawl has no option {name!r}{_instead(name)}")
        if value is None:
            continue
        meant = _NAMES[name].get("const", value) if value is True else value
        given[name] = _listed(name, meant) if name in _LISTS else _plain(meant)
    if STDOUT in given.get("output", ()):
        raise ValueError("output: standard output is not available in a program; loop over the pages instead")
    with _named_as_given():
        settings = build_settings(
            argparse.Namespace(job=directory, config=config, parquet=None, **given), giver=_ARGUMENTS
        )
    if settings.hooks.on_page is not None:
        raise ValueError("on_page: call your functions in the loop over the pages instead")
    if settings.partitions.wanted:
        raise ValueError("a crawl in partitions needs several processes: start it with `crawler --partitions N`")
    if "wacz" in settings.output.keep:
        raise ValueError("output: choose warc; `crawler export DIR --wacz OUT.wacz` converts it to a WACZ file")
    return settings


def code_of(settings: Settings, hooks: Mapping[str, Any]) -> tuple[Settings, dict[str, NamedCode]]:
    """Return the settings with the given values of ``HOOKS``, and the functions of the crawl, given directly or by
    name. None means that a value is not given.

    Raises ValueError for an unusable function or value."""
    given = {name: value for name, value in hooks.items() if value is not None}
    for name in given.keys() & _FUNCTIONS:
        if not callable(given[name]) and not isinstance(given[name], str):
            raise ValueError(f"{name} must be a function, or the name of one, not {given[name]!r}")
    source = FileSource(_PLACE, "", {("hooks", name): f"argument {name}" for name in given})
    with _named_as_given():
        loaded = load_hooks(replace(settings.hooks, **given), source)
        names = {name: code.name for name, code in loaded.items() if name in given}
        checked = settings_from({"hooks": given | names}, source).hooks
    named = replace(settings.hooks, **{name: getattr(checked, name) for name in given})
    return replace(settings, hooks=named), loaded


def choice_of(types: Iterable[str], statuses: Iterable[str]) -> StoreChoice:
    """Return the choice of pages to deliver. Raises ValueError."""
    given = {"store_types": _listed("types", types), "store_statuses": _listed("statuses", statuses)}
    names = {("output", key): f"argument {key.removeprefix('store_')}" for key in given}
    with _named_as_given():
        return StoreChoice.of(settings_from({"output": given}, FileSource(_PLACE, "", names)).output)


@contextlib.contextmanager
def _named_as_given() -> Iterator[None]:
    """Convert errors in settings to ValueErrors that name the program's arguments."""
    try:
        yield
    except UserFault as error:
        raise ValueError(_SETTING.sub(r"\1", str(error))) from error


def _instead(name: str) -> str:
    """Return what to write instead of an unknown argument: another argument, or a line in a file."""
    places = {
        word: f": write {key} under [{table}] into a file, and give it as config='crawl.toml'"
        for table, kind in TABLES.items()
        for key in kind.__struct_fields__
        for word in (key, f"{table}_{key}")
    }
    options = {word: f" (did you mean {word!r}?)" for word in (*_NAMES, *HOOKS)}
    for word in get_close_matches(name, {**places, **options}, 1, 0.8):
        return options.get(word) or places[word]
    return "; settings without an option go into a file: config='crawl.toml'"


def _listed(name: str, value: object) -> list[Any]:
    if not isinstance(value, str):
        if not isinstance(value, Iterable) or isinstance(value, bytes):
            raise ValueError(f"{name} must be a list of strings, not {str(value)[:100]}")
        return list(value)
    return [each for each in value.split(",") if each] if name == "output" else [value]


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
