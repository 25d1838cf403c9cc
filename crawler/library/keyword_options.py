"""Converts keyword arguments of a program into settings of a crawl, as the command line converts flags."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from crawler.base.faults import UserFault
from crawler.base.settings.load import Source, has_key, nearest, settings_from
from crawler.base.settings.parts import TABLES, Settings
from crawler.cli.crawl import build_settings
from crawler.cli.options import FLAGS, STDOUT, Giver
from crawler.cli.toml_lines import FileSource
from crawler.engine.hooks.loaded import ARGUMENTS, load_hooks
from crawler.engine.hooks.named_code import CodeError, NamedCode, load_code

_NAMES = {flag.removeprefix("--").replace("-", "_"): arguments for flag, (_, _, arguments) in FLAGS.items()}
_FUNCTIONS = {name: arguments for name, arguments in ARGUMENTS.items() if name != "on_page"}
HOOKS = (*_FUNCTIONS, "relevant_score", "on_error", "on_page_timeout")  # settings of [hooks] that are also arguments
UNUSED = ("on_page", "wacz")  # a flag and an output that programs cannot use
_ARGUMENTS = Giver("keyword arguments", lambda flag: _argument(flag.removeprefix("--").replace("-", "_")))
_LISTS = frozenset(name for name, arguments in _NAMES.items() if arguments.get("action") == "append") | {"output"}


def settings_of(directory: Path, config: Path | None, options: Mapping[str, Any]) -> Settings:
    """Return the settings of a crawl in the directory. ``options`` have the names of the flags, with ``_`` for ``-``,
    and their values; None means that the flag is not given, and a flag that may be repeated takes a list.

    Raises TypeError for an unknown name, ValueError for an invalid value, or if the existing job cannot resume
    with it."""
    given = {}
    for name, value in options.items():
        if name not in _NAMES:
            raise TypeError(f"a crawl has no option {name!r}{_instead(name)}")
        if value is None:
            continue
        meant = _NAMES[name].get("const", value) if value is True else value
        given[name] = _listed(name, meant) if name in _LISTS else _plain(meant)
    if "on_page" in given:
        raise ValueError("argument on_page: call your functions in the loop over the pages instead")
    if STDOUT in given.get("output", ()):
        raise ValueError("output: standard output is not available in a program; loop over the pages instead")
    try:
        settings = build_settings(
            argparse.Namespace(job=directory, config=config, parquet=None, **given), giver=_ARGUMENTS
        )
    except UserFault as error:
        raise ValueError(str(error)) from error
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
    functions = {name: value for name, value in given.items() if name in _FUNCTIONS and callable(value)}
    for name in _FUNCTIONS.keys() & given.keys() - functions.keys():
        if not isinstance(given[name], str):
            raise ValueError(f"{_argument(name)} must be a function, or the name of one, not {given[name]!r}")
    own = {name: _code_of(name, value) for name, value in functions.items()}
    table = {**given, **{name: code.name for name, code in own.items()}}
    places = {("hooks", name): _argument(name) for name in table}
    checked = settings_from({"hooks": table}, FileSource(_ARGUMENTS.place, "", places)).hooks
    named = replace(settings.hooks, **{name: getattr(checked, name) for name in given})
    unnamed: dict[str, Any] = dict.fromkeys(own)
    loaded = load_hooks(replace(named, **unnamed), Source(_ARGUMENTS.place))
    return replace(settings, hooks=named), {**loaded, **own}


def texts(name: str, values: object, such_as: str) -> list[str]:
    """Return the strings of an argument. Raises TypeError for anything else."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{_argument(name)} must be a list of strings such as {such_as}, not {values!r}")
    found = list(values)
    for each in found:
        if not isinstance(each, str):
            raise TypeError(f"{_argument(name)} must be a list of strings such as {such_as}, but contains {each!r}")
    return found


def _instead(name: str) -> str:
    """Return what to write instead of an unknown argument: another one, or a line in a file."""
    for table in TABLES:
        key = name.removeprefix(f"{table}_")
        if has_key(table, key):
            return f": write {key} under [{table}] into a file, and give it as config='crawl.toml'"
    return f"{nearest(name, (*_NAMES, *HOOKS))}; settings without an option go into a file: config='crawl.toml'"


def _argument(name: str) -> str:
    return f"argument {name}"


def _code_of(name: str, function: Any) -> NamedCode:
    try:
        return load_code(function, _FUNCTIONS[name])
    except CodeError as error:
        raise CodeError(f"{_argument(name)}: {error}") from error


def _listed(name: str, value: object) -> list[Any]:
    if not isinstance(value, str):
        if not isinstance(value, Iterable) or isinstance(value, bytes):
            raise ValueError(f"{_argument(name)} must be a list of strings, not {value!r}")
        return list(value)
    return [each for each in value.split(",") if each] if name == "output" else [value]


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
