"""``crawler filter``: builds, inspects, merges and exchanges seen-set files."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from msgspec.structs import replace

from crawler.base.figures import counted, probability
from crawler.base.say import say
from crawler.cli.dedup import (
    STDIN,
    STDOUT,
    add_seen_options,
    chosen_hash,
    ended,
    figures,
    seen_settings,
    skipped_lines,
)
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.shared_filter import (
    filter_file,
    filter_place,
    opened,
    producer_of,
    pulled,
    push,
    set_figures,
    set_json,
    shared_hash,
    spec_of,
)
from crawler.seen.filters import Filter, FilterError
from crawler.seen.shared.set_address import FORM, SECRET_FILE, SetAddress
from crawler.service.ending_signals import interruption
from crawler.service.progress.text_table import text_table
from crawler.tools.dedup.build import Recipe, build_from_file, build_from_source, merge_files
from crawler.tools.dedup.exchange import guava_from_seen, read_guava, redis_commands
from crawler.tools.dedup.filter_setup import LAYOUTS
from crawler.tools.dedup.key_spec import KeySpec
from crawler.tools.dedup.lines import LineSource, count_lines
from crawler.tools.dedup.store import FilterFile, FilterFileError, StoredFilter, read_filter
from crawler.tools.dedup.stream import Tally, contained

if TYPE_CHECKING:
    from crawler.seen.shared.redis_bloom import ModuleSet
    from crawler.seen.shared.shared_set import SharedSet

_MOST_JOBS = 256
_Slice = Mapping[str, Any]
_COLUMNS: Mapping[str, Callable[[_Slice], str]] = {
    "shards": lambda part: str(part["shards"]),
    "capacity": lambda part: f"{part['capacity']:,}",
    "keys": lambda part: f"{part['count']:,}",
    "bytes": lambda part: f"{part['bits'] // 8:,}",
    "hashes": lambda part: str(part["hashes"]),
    "fill": lambda part: f"{part['fill']:.3f}",
    "fpp": lambda part: probability(part["fpp_estimated"]),
    "fpp full": lambda part: probability(part["fpp_design"]),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Work with the seen-sets of `crawler dedup --filter`, in files or on a server."
    parser.set_defaults(run=lambda _: _list(parser))
    actions = parser.add_subparsers(metavar="ACTION")

    build = actions.add_parser("build", help="build a filter from a list, in several processes")
    build.add_argument("file", type=filter_file, metavar="FILE", help="the file to create; must not exist")
    build.add_argument(
        "--from", dest="list", required=True, metavar="LIST", help="URLs, one per line; - for standard input"
    )
    build.add_argument("--raw", action="store_true", help="any lines, by their bytes (default: URLs, by key)")
    add_seen_options(build, "bloom")
    build.add_argument("--layout", choices=LAYOUTS, help="layout of a bloom filter (paired); guava can be exported")
    build.add_argument(
        "--keys", "--capacity", type=int, dest="capacity", metavar="N", help="expected keys (the lines of LIST)"
    )
    build.add_argument("--jobs", type=int, metavar="N", help="processes (one per core)")
    build.add_argument("--config", type=Path, metavar="FILE", help="take canonical.rules from this TOML file")
    build.set_defaults(run=_build)

    merge = actions.add_parser("merge", help="merge filters with the same parameters into a new one")
    merge.add_argument("file", type=filter_file, metavar="OUT", help="must not exist yet")
    merge.add_argument("parts", type=filter_file, nargs="+", metavar="IN")
    merge.set_defaults(run=_merge)

    info = actions.add_parser("info", help="show the contents of a filter and verify its checksums")
    _add_place(info)
    info.add_argument("--json", action="store_true", help="one JSON object")
    info.set_defaults(run=_info)

    check = actions.add_parser(
        "check", help="print the lines of standard input that are in a filter, and verify its checksums"
    )
    _add_place(check)
    check.set_defaults(run=_check)

    _add_server_actions(actions)

    _add_exchange_actions(actions)


def _add_exchange_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = actions.add_parser("export", help="export a filter for Guava, or for Redis's GETBIT")
    export.add_argument("source", type=filter_file, metavar="FILE")
    export.add_argument("file", type=filter_file, metavar="OUT", help="must not exist yet")
    export.add_argument("--format", choices=("guava", "redis"), required=True)
    export.add_argument("--key", metavar="KEY", help="with --format redis: the name in Redis (default: that of OUT)")
    export.set_defaults(run=_export)

    action = actions.add_parser("import", help="import a filter of another library")
    action.add_argument("source", type=Path, metavar="IN")
    action.add_argument("file", type=filter_file, metavar="FILE", help="must not exist yet")
    action.add_argument("--format", choices=("guava",), required=True)
    action.add_argument("--raw", action="store_true", help="its keys are lines (default: canonical keys of URLs)")
    action.set_defaults(run=_import)


def _add_server_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser("push", help="add the keys of a filter to a set on a server, or create the set")
    parser.add_argument("source", type=filter_file, metavar="FILE")
    parser.add_argument("place", type=filter_place, metavar="redis://HOST:PORT/NAME")
    parser.set_defaults(run=_push)

    pull = actions.add_parser("pull", help="store a set on a server as a filter")
    pull.add_argument("place", type=filter_place, metavar="redis://HOST:PORT/NAME")
    pull.add_argument("file", type=filter_file, metavar="FILE", help="must not exist yet")
    _add_secret(pull)
    pull.set_defaults(run=_pull)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=filter_place, metavar="FILE", help="or redis://HOST:PORT/NAME")
    _add_secret(parser)


def _add_secret(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secret-of",
        type=filter_file,
        metavar="FILE",
        help=f"for a set on a server: use the secret of this filter (default: the one in {SECRET_FILE})",
    )


def _list(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return Exit.OK


def _build(arguments: argparse.Namespace) -> int:
    if arguments.jobs is not None and not 1 <= arguments.jobs <= _MOST_JOBS:
        raise UsageError(f"--jobs must be between 1 and {_MOST_JOBS}, not {arguments.jobs}")
    if arguments.seen == "digest" and arguments.fpp is not None:
        raise UsageError("--fpp does not apply to a seen-set of kind digest")
    settings, _ = seen_settings(arguments, "bloom")
    keys = KeySpec(raw=True) if arguments.raw else KeySpec(rules=settings.canonical.rules)
    recipe = Recipe(keys, settings.seen, chosen_hash(arguments, settings.seen, arguments.layout), arguments.layout)
    made = _from_pipe if _is_pipe(arguments.list) else _from_file
    with _new_file(arguments.file) as file:
        seen, tally = made(arguments, recipe)
        file.write(StoredFilter(seen, keys))
    _tell(f"{arguments.file}: {tally.lines:,} {keys} read", *skipped_lines(tally), *figures(seen))
    return Exit.OK


def _is_pipe(name: str) -> bool:
    """Return True if the list can be read only once, so that it can be neither counted nor split. Raises UsageError."""
    if name == "-":
        return True
    try:
        mode = os.stat(name).st_mode
        os.close(os.open(name, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        raise UsageError(f"cannot read list {name}: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise UsageError(f"list {name} is a directory")
    return not stat.S_ISREG(mode)


def _from_pipe(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Filter, Tally]:
    if arguments.jobs not in (None, 1):
        raise UsageError(f"--jobs {arguments.jobs} needs a list in a file: a pipe is read by one process")
    if arguments.capacity is None:
        raise UsageError("a list from a pipe cannot be counted first: give --keys N")
    with open(STDIN if arguments.list == "-" else arguments.list, "rb", closefd=arguments.list != "-") as inp:
        return build_from_source(LineSource(inp.fileno()), recipe)


def _from_file(arguments: argparse.Namespace, recipe: Recipe) -> tuple[Filter, Tally]:
    path = Path(arguments.list)
    if arguments.capacity is None:
        with open(path, "rb") as inp:
            lines = count_lines(inp.fileno())
        recipe = replace(recipe, seen=replace(recipe.seen, capacity=max(1, lines)))
    return build_from_file(path, recipe, arguments.jobs)


def _merge(arguments: argparse.Namespace) -> int:
    with _new_file(arguments.file) as file:
        whole = merge_files(arguments.parts)
        file.write(whole)
    _tell(f"{arguments.file}: {counted(len(arguments.parts), 'filter')} merged", *figures(whole.seen))
    return Exit.OK


def _info(arguments: argparse.Namespace) -> int:
    if isinstance(arguments.file, SetAddress):
        return _info_of_set(arguments)
    stored = read_filter(arguments.file)
    parameters, now = stored.seen.parameters(), stored.seen.statistics()
    if arguments.json:
        keys = None if stored.keys is None else stored.keys.as_json()
        print(json.dumps({"keys": keys, "parameters": parameters, **now}, indent=2))
        return Exit.OK
    print(f"keys: {'unknown' if stored.keys is None else stored.keys}")
    print(", ".join(f"{name} {value}" for name, value in parameters.items()))
    if not now["hash"]["forgeable"]:
        print(f"hash: {stored.seen.hash}, {'with a secret' if stored.seen.hash.keyed else 'without a secret'}")
    for line in figures(stored.seen):
        print(line)
    print("\n".join(_slice_table(now["slices"])))
    return Exit.OK


def _info_of_set(arguments: argparse.Namespace) -> int:
    with opened(arguments.file, producer_of(shared_hash(arguments.secret_of))) as found:
        if arguments.json:
            print(json.dumps(set_json(found), indent=2))
            return Exit.OK
        print(f"keys: {spec_of(found)}")
        slices = set_json(found).get("slices")  # totals of all shards; a module reports no slices
        for line in (*set_figures(found), *(_slice_table(slices) if slices else ())):
            print(line)
    return Exit.OK


def _check(arguments: argparse.Namespace) -> int:
    if isinstance(arguments.file, SetAddress):
        with opened(arguments.file, producer_of(shared_hash(arguments.secret_of))) as found:
            return _check_in(found.seen, spec_of(found))
    stored = read_filter(arguments.file)
    return _check_in(stored.seen, stored.keys or KeySpec(), f"{arguments.file}: checksums match")


def _check_in(seen: Filter | SharedSet | ModuleSet, keys: KeySpec, *first: str) -> int:
    with interruption() as wake:
        tally = contained(LineSource(STDIN, wake), keys.reader(seen.hash), seen, STDOUT)
    held = tally.lines - tally.new
    _tell(*first, f"{tally.lines:,} {keys}: {held:,} contained, {tally.new:,} not", *skipped_lines(tally))
    return ended(tally)


def _push(arguments: argparse.Namespace) -> int:
    _tell(*push(arguments.source, _set_of(arguments)))
    return Exit.OK


def _pull(arguments: argparse.Namespace) -> int:
    address = _set_of(arguments)
    with _new_file(arguments.file) as file:
        seen, keys = pulled(address, shared_hash(arguments.secret_of))
        file.write(StoredFilter(seen, keys))
    _tell(f"{arguments.file}: {keys}", *figures(seen))
    return Exit.OK


def _set_of(arguments: argparse.Namespace) -> SetAddress:
    if isinstance(arguments.place, SetAddress):
        return arguments.place
    raise UsageError(f"{arguments.place} is not a valid set address: write {FORM}")


def _export(arguments: argparse.Namespace) -> int:
    stored = read_filter(arguments.source)
    keys = f"keys: {stored.keys or 'unknown'}"
    if arguments.format == "guava" and arguments.key is not None:
        raise UsageError("--key applies only to --format redis")
    key = arguments.key or arguments.file.name
    try:
        if arguments.format == "redis":
            commands = redis_commands(stored.seen, key)
        else:
            made = guava_from_seen(stored.seen)
    except FilterError as problem:
        raise FilterFileError(f"filter {arguments.source}: {problem}") from problem
    with _new_file(arguments.file) as file:
        if arguments.format == "redis":
            file.replace(lambda out: [out.write(command) for command in commands])
            _tell(f"{arguments.file}: commands for redis-cli --pipe, which write {key} and {key}:0; {keys}")
        else:
            file.replace(lambda out: made.write_to(cast("BinaryIO", out)))
            _tell(f"{arguments.file}: a Guava filter; {keys}")
    return Exit.OK


def _import(arguments: argparse.Namespace) -> int:
    seen = read_guava(arguments.source)
    keys = KeySpec(raw=bool(arguments.raw))
    with _new_file(arguments.file) as file:
        file.write(StoredFilter(seen, keys))
    _tell(f"{arguments.file}: {keys}", *figures(seen))
    return Exit.OK


@contextmanager
def _new_file(path: Path) -> Iterator[FilterFile]:
    """Create a filter file. Raises FilterFileError if the file exists, because overwriting it would lose its
    content."""
    with FilterFile(path) as file:
        if file.path.exists():
            raise FilterFileError(f"{path} already exists: choose another file, or remove this one")
        yield file


def _tell(*lines: str) -> None:
    for line in lines:
        say(sys.stderr, line)


def _slice_table(slices: Sequence[_Slice]) -> list[str]:
    """Return the lines of the table. ``slices`` is as in the statistics; for a set on a server, it includes the number
    of shards of each slice."""
    columns = {head: text for head, text in _COLUMNS.items() if head != "shards" or (slices and "shards" in slices[0])}
    rows = [(str(number), *(text(part) for text in columns.values())) for number, part in enumerate(slices)]
    return text_table(("slice", *columns), rows)
