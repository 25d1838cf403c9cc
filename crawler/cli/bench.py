"""``crawler bench``: studies of hashes and seen-sets on this machine."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from crawler.bench import bits_study, hash_study, membership_study
from crawler.bench.machine import describe_machine
from crawler.bench.membership_plot import membership_plot
from crawler.cli.errors import Exit, UsageError

PACKAGES = ("numpy", "mmh3", "bitarray", "rocksdict")
_LEAST = 100
_MOST = 100_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Studies of hashes and seen-sets, each a table on standard output."
    parser.set_defaults(run=lambda _: _list(parser))
    studies = parser.add_subparsers(metavar="NAME")
    hashes = studies.add_parser("hashes", help="time and collisions of 18 hashes of 32 bits (15 s)")
    _add_keys(hashes, hash_study.RANDOM, "random strings")
    hashes.set_defaults(run=_hashes)
    bits = studies.add_parser("bits-per-key", help="file size and false positives at 10, 15 and 20 bits a key (2 s)")
    _add_keys(bits, bits_study.KEYS, "keys in the filter")
    bits.add_argument(
        "--absent", type=_count, default=bits_study.ABSENT, metavar="N", help="keys asked that are not in"
    )
    bits.set_defaults(run=_bits)
    membership = studies.add_parser(
        "membership", help="databases, sets, digests, bitmaps and every kind of seen-set on the same URLs (2 min)"
    )
    _add_keys(membership, membership_study.KEYS, "URLs in, and as many asked that are not")
    membership.add_argument("--out", type=Path, metavar="FILE.svg", help="plot there, the table beside it as .txt")
    membership.set_defaults(run=_membership)


def _list(bench: argparse.ArgumentParser) -> int:
    bench.print_help()
    return Exit.OK


def _add_keys(parser: argparse.ArgumentParser, usual: int, what: str) -> None:
    parser.add_argument("--keys", type=_count, default=usual, metavar="N", help=f"{what} ({usual:,})")


def _count(word: str) -> int:
    try:
        count = int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number") from None
    if not _LEAST <= count <= _MOST:
        raise argparse.ArgumentTypeError(f"must lie between {_LEAST} and {_MOST:,}, not {count}")
    return count


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _hashes(arguments: argparse.Namespace) -> int:
    _show([*describe_machine(PACKAGES), ""])
    sets = hash_study.key_sets(arguments.keys)
    _show(hash_study.hash_table(hash_study.study_hashes(sets), sets))
    return Exit.OK


def _bits(arguments: argparse.Namespace) -> int:
    _show([*describe_machine(PACKAGES), f"keys      {arguments.keys:,} in, {arguments.absent:,} absent", ""])
    with tempfile.TemporaryDirectory() as directory:
        _show(bits_study.bits_table(bits_study.study_bits(Path(directory), arguments.keys, arguments.absent)))
    return Exit.OK


def _membership(arguments: argparse.Namespace) -> int:
    out: Path | None = arguments.out
    # Found out before minutes of work, not after.
    if out is not None and (out.suffix != ".svg" or not out.parent.is_dir()):
        raise UsageError(f"--out must name a file ending in .svg in a directory that is there, not {out}")
    head = [
        *describe_machine(PACKAGES),
        f"keys      {arguments.keys:,} in, {arguments.keys:,} absent, in batches of {membership_study.BATCH}",
        "",
    ]
    _show(head)
    with tempfile.TemporaryDirectory() as directory:
        results = list(membership_study.study_membership(Path(directory), arguments.keys))
    table = membership_study.membership_table(results)
    _show(table)
    if out is not None:
        out.write_text(membership_plot(results), "utf-8")
        out.with_suffix(".txt").write_text("\n".join([*head, *table, ""]), "utf-8")
    return Exit.OK
