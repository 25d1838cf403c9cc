"""``crawler dedup``: copies the new lines of standard input to standard output."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from crawler.base.figures import counted, probability
from crawler.base.memory import available_memory
from crawler.base.say import say
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import SEEN_HASHES, SeenSettings, Settings
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.options import lay_flags_over
from crawler.cli.shared_filter import (
    check_set,
    filter_file,
    filter_place,
    opened,
    producer_of,
    set_figures,
    shared_hash,
    wanted_set,
)
from crawler.job.metrics.outlook import seen_warning
from crawler.job.metrics.sentences import suspicion
from crawler.seen.filters import BLAKE2B, KINDS, Filter, FilterError, KeyHash
from crawler.seen.shared.set_address import SECRET_FILE, SetAddress
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS
from crawler.service.ending_signals import interruption
from crawler.tools.dedup.chain_rebuild import keep_digests
from crawler.tools.dedup.filter_setup import Wanted, check_agreement, make_filter, make_hash
from crawler.tools.dedup.key_spec import KeySpec
from crawler.tools.dedup.lines import LineSource
from crawler.tools.dedup.store import FilterFile, FilterFileError, StoredFilter, read_filter, read_hash
from crawler.tools.dedup.stream import Keeper, Tally, deduplicate, deduplicate_shared
from crawler.url.urls.canonicaliser import Canonicaliser

STDIN, STDOUT = 0, 1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read URLs from standard input, one per line, and print new ones in order. A summary goes to standard error."
    )
    parser.add_argument(
        "--filter",
        type=filter_place,
        metavar="FILE",
        help="load the seen-set from this file, and save it there; or redis://HOST:PORT/NAME, shared by many producers",
    )
    add_seen_options(parser, "scalable")
    parser.add_argument("--capacity", type=int, metavar="N", help="keys in the first slice (1048576)")
    parser.add_argument(
        "--raw",
        action=argparse.BooleanOptionalAction,
        help="any lines, compared byte by byte (default: URLs, compared by their canonical key; or as in FILE)",
    )
    parser.add_argument(
        "--producer",
        metavar="NAME",
        help="for a set on a server: if a run is killed, the next run with this name reprints the lines that may "
        "be missing from the output",
    )
    parser.add_argument(
        "--module", action="store_true", help="for a set on a server: let RedisBloom or valkey-bloom store it"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML; flags override them")
    parser.set_defaults(run=run)


def add_seen_options(parser: argparse.ArgumentParser, usual: str) -> None:
    parser.add_argument("--seen", choices=KINDS, help=f"kind of seen-set ({usual})")
    parser.add_argument("--fpp", type=float, metavar="P", help="bound on its false-positive probability (0.001)")
    parser.add_argument(
        "--hash",
        choices=SEEN_HASHES,
        help="hash of keys: keyed (blake2b), or a fast one for keys from trusted sources",
    )
    parser.add_argument(
        "--secret-of",
        type=filter_file,
        metavar="FILE",
        help="hash keys with the secret of this filter, so that both can be merged (default: a random secret; for a "
        f"set on a server, the one in {SECRET_FILE})",
    )


def run(arguments: argparse.Namespace) -> int:
    settings, wanted = _settings(arguments)
    rules = settings.canonical.rules
    try:
        if isinstance(arguments.filter, SetAddress):
            return _run_shared(arguments, settings, wanted)
        if arguments.producer is not None or arguments.module:
            given = "--module" if arguments.module else "--producer"
            raise UsageError(f"{given} applies only to a set on a server: --filter redis://HOST:PORT/NAME")
        if arguments.filter is None:
            stored = _new(settings.seen, wanted, _spec(arguments.raw, rules), chosen_hash(arguments, settings.seen))
            return _run(stored, None)
        with FilterFile(arguments.filter) as file:
            if file.path.exists():
                # The configured hash applies only to new files.
                stored = _resumed(read_filter(file.path), file.path, wanted, arguments.raw, rules)
                _check_hash(arguments, file.path, stored.seen.hash)
            else:
                stored = _new(settings.seen, wanted, _spec(arguments.raw, rules), chosen_hash(arguments, settings.seen))
            interval = settings.durability.checkpoint_interval
            with keep_digests(file, stored, settings.seen.compact_slices, _warn, time.monotonic) as rebuild:
                keys = stored.keys or KeySpec()
                keeper = Keeper(file, keys, STDOUT, rebuild, interval=interval, clock=time.monotonic)
                return _run(stored, keeper)
    except ValueError as problem:
        raise UsageError(str(problem)) from problem


def _run_shared(arguments: argparse.Namespace, settings: Settings, wanted: list[Wanted]) -> int:
    """Run ``dedup`` with a set on a server."""
    if arguments.seen not in (None, "scalable"):
        raise UsageError(f"--seen {arguments.seen} does not apply to a set on a server, which grows in slices")
    if arguments.hash not in (None, BLAKE2B):
        raise UsageError(f"--hash {arguments.hash} does not apply to a set on a server: its hash is keyed")
    rules = settings.canonical.rules
    producer = producer_of(shared_hash(arguments.secret_of), arguments.producer)
    head = wanted_set(producer, settings.seen, _spec(arguments.raw, rules), arguments.module)
    with opened(arguments.filter, producer, head) as found, interruption() as wake:
        keys = check_set(found, wanted, arguments.raw, rules)
        found.seen.begin()
        source = LineSource(STDIN, wake)
        tally = deduplicate_shared(source, keys.reader(found.seen.hash), found.seen, STDOUT, _warn)
        for line in (*told(tally, keys), *set_figures(found)):
            say(sys.stderr, line)
    return ended(tally)


def _settings(arguments: argparse.Namespace) -> tuple[Settings, list[Wanted]]:
    """Return all settings, and the seen-set settings given by the user. Raises UsageError."""
    settings, labels = seen_settings(arguments)
    return settings, [Wanted(label, name, getattr(settings.seen, name)) for name, label in labels.items()]


def seen_settings(arguments: argparse.Namespace, usual: str | None = None) -> tuple[Settings, dict[str, str]]:
    """Return the settings, with flags overriding the TOML file, and the seen-set settings given by the user, with their
    labels.

    If a ``usual`` kind is given, the seen-set settings of the TOML file are ignored. Raises UsageError.
    """
    given = {name: vars(arguments)[name] for name in ("fpp", "capacity")}
    flags = {f"--{name}": ("seen", name, value) for name, value in given.items() if value is not None}
    tables, source = lay_flags_over(arguments.config, flags)
    if usual is not None:
        tables["seen"] = {name: value for _, name, value in flags.values()}
    try:
        settings = settings_from(tables, source)
        Canonicaliser(settings.canonical.rules)
    except (SettingsError, ValueError) as error:
        raise UsageError(str(error)) from error
    labels = {name: f"seen.{name} in {arguments.config}" for name in tables.get("seen", {})}
    labels |= {name: flag for flag, (_, name, _) in flags.items()}
    if arguments.seen is not None:
        labels["kind"] = "--seen"
    kind = arguments.seen or usual
    if arguments.hash is not None:
        settings = replace(settings, seen=replace(settings.seen, hash=arguments.hash))
    if kind is not None:
        # The kind is set only after the file's settings have been checked, because settings for a crawl may not fit it.
        settings = replace(settings, seen=replace(settings.seen, kind=kind))
    return settings, labels


def _spec(raw: bool | None, rules: tuple[str, ...]) -> KeySpec:
    return KeySpec(raw=True) if raw else KeySpec(rules=rules)


def chosen_hash(arguments: argparse.Namespace, settings: SeenSettings, layout: str | None = None) -> KeyHash:
    """Return the hash of a new seen-set. Raises UsageError, FilterFileError."""
    if layout in GUAVA_LAYOUTS and (arguments.hash or arguments.secret_of):
        given = "--hash" if arguments.hash else "--secret-of"
        raise UsageError(f"{given} does not apply to --layout {layout}: Guava has its own hash, without a secret")
    if arguments.secret_of is None:
        return make_hash(settings, layout)
    found = read_hash(arguments.secret_of)
    if arguments.hash not in (None, found.algorithm):
        raise UsageError(f"--hash {arguments.hash} does not match filter {arguments.secret_of}: its hash is {found}")
    return found


def _new(settings: SeenSettings, wanted: list[Wanted], keys: KeySpec, hash: KeyHash) -> StoredFilter:
    seen = make_filter(settings, hash=hash)
    check_agreement(None, seen, [want for want in wanted if _is_flag(want)])
    return StoredFilter(seen, keys)


def _resumed(
    stored: StoredFilter, path: Path, wanted: list[Wanted], raw: bool | None, rules: tuple[str, ...]
) -> StoredFilter:
    """Return the content of the file. Raises FilterFileError if the content does not match the request."""
    held = stored.seen.parameters()
    # The configuration may set parameters that this kind of seen-set lacks, but each flag must apply to the kind.
    check_agreement(path, stored.seen, [want for want in wanted if _is_flag(want) or want.name in held])
    if stored.keys is None:
        return StoredFilter(stored.seen, _spec(raw, rules))
    asked = _spec(stored.keys.raw if raw is None else raw, rules or stored.keys.rules)
    if asked != stored.keys:
        raise FilterFileError(f"filter {path} holds {stored.keys}, not {asked}: choose another file")
    return stored


def _check_hash(arguments: argparse.Namespace, path: Path, hash: KeyHash) -> None:
    """Raise FilterFileError if the flags ask for a hash other than the file's."""
    if arguments.hash not in (None, hash.algorithm):
        raise FilterFileError(f"--hash {arguments.hash} does not match filter {path}, whose hash is {hash}")
    if arguments.secret_of is not None and read_hash(arguments.secret_of) != hash:
        raise FilterFileError(f"--secret-of {arguments.secret_of} does not match filter {path}: it has another secret")


def _is_flag(want: Wanted) -> bool:
    return want.label.startswith("--")


def _run(stored: StoredFilter, keeper: Keeper | None) -> int:
    keys = stored.keys or KeySpec()
    with interruption() as wake:
        source = LineSource(STDIN, wake)
        try:
            tally = deduplicate(source, keys.reader(stored.seen.hash), stored.seen, STDOUT, keeper, _warn)
        except FilterError as problem:
            raise FailedError(f"error: {problem}") from problem
    for line in (*told(tally, keys), *figures(stored.seen)):
        say(sys.stderr, line)
    return ended(tally)


def ended(tally: Tally) -> int:
    """Return the exit code for the tally of a run. Raises FailedError if the run stopped early."""
    if tally.stopped is not None:
        raise FailedError(f"error: stopped after {counted(tally.lines, 'line')}: {tally.stopped}")
    return Exit.INTERRUPTED if tally.interrupted else Exit.OK


def _warn(text: str) -> None:
    say(sys.stderr, f"crawler: warning: {text}")


def told(tally: Tally, keys: KeySpec) -> Iterator[str]:
    """Yield the summary of the lines: new, seen and skipped."""
    yield f"{keys.counted(tally.lines)}: {tally.new:,} new, {tally.lines - tally.new:,} seen before"
    yield from skipped_lines(tally)


def skipped_lines(tally: Tally) -> Iterator[str]:
    if tally.skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in tally.skipped.most_common())
        yield f"{counted(tally.skipped.total(), 'line')} skipped: {reasons}"


def figures(seen: Filter) -> Iterator[str]:
    """Yield lines that describe the seen-set."""
    now = seen.statistics()
    if now["hash"]["forgeable"]:
        how = "a random seed; keys can be forged: not for untrusted lines"
        if not now["hash"]["keyed"]:
            how = "seed 0; anyone can forge keys: only for interchange, or for trusted lines"
        yield f"hash: {now['hash']['algorithm']} with {how}"
    slices = len(now["slices"])
    yield (
        f"{now['kind']}: {counted(now['count'], 'key')}, {now['bytes']:,} bytes in {counted(slices, 'slice')}; "
        f"false positives {probability(abs(now['fpp_estimated']))} (target {probability(now['fpp_target'])}), "
        f"about {now['expected_urls_skipped']:,.1f} new lines mistaken for seen ones"
    )
    if now["count_suspect"]:
        yield f"warning: the seen-set cannot be trusted: {suspicion(now)}"
    warning = seen_warning(now, seen.parameters(), available_memory())
    if warning is not None:
        yield f"warning: {warning.text}"
