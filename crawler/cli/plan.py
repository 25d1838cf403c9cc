"""``crawler plan``: compares the resources that each kind of seen-set would need for a crawl."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.figures import counted, probability
from crawler.base.memory import available_memory
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import LEDGER_KINDS, SeenSettings
from crawler.cli.exit_codes import Exit, UsageError
from crawler.seen.filters import FilterError, Plan, not_planned, plan, plan_compacted
from crawler.service.progress.text_table import text_table

_WORTH_NAMING = 0.5  # URLs
_ROW_BYTES = 30  # benchmarks/filters/exact.py
_LEDGER_BYTES = 35  # benchmarks/filters/ledger.py


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the memory, bits per URL, slices, false positives and skipped pages of each kind of seen-set."
    )
    parser.add_argument("--urls", type=int, required=True, metavar="N", help="expected number of distinct URLs")
    parser.add_argument("--fpp", type=float, metavar="P", help="bound on the false-positive probability (0.001)")
    parser.add_argument("--capacity", type=int, metavar="N", help="keys in the first slice (1048576)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    given = {name: getattr(arguments, name) for name in ("fpp", "capacity")}
    urls: int = arguments.urls
    try:
        seen = settings_from({"seen": {name: value for name, value in given.items() if value is not None}}).seen
        asked = (urls, seen.fpp, seen.capacity)
        plans, left_out = plan(*asked), not_planned(*asked)
    except (SettingsError, FilterError) as problem:
        raise UsageError(str(problem).removeprefix("configuration: ")) from problem
    if not plans:
        raise UsageError(f"a seen-set for {counted(urls, 'URL')} with an fpp of {seen.fpp:.3g} cannot fit in memory")
    possible = "scalable" not in left_out
    plans += [_exact(made) for made in plans if made.kind == "scalable"]
    compacted = plan_compacted(*asked, slices=seen.compact_slices) if possible else None
    comparison = Comparison(urls, seen, plans, compacted, left_out, available_memory())
    if arguments.json:
        print(json.dumps(_as_json(comparison), indent=2))
    else:
        print("\n".join(_as_text(comparison)))
    return Exit.OK


class Comparison(Struct, frozen=True):
    """The plans for ``urls`` URLs."""

    urls: int
    seen: SeenSettings
    plans: Sequence[Plan]
    compacted: Plan | None  # the scalable kind, compacted as in a crawl
    impossible: Mapping[str, str]  # kind -> why there is no plan
    free: int | None  # bytes of memory


def _exact(front: Plan) -> Plan:
    """Return the plan of the exact seen-set, which has a scalable filter, never compacted, in front of its rows."""
    return replace(front, kind="exact", fpp=0.0, urls_skipped=0.0, forgets=True)


def warnings(made: Plan, free: int | None) -> Iterator[str]:
    """Yield facts that a user should know before choosing this kind."""
    if free is not None and made.peak > free:
        yield f"needs more memory than the {free:,} bytes that are free here"
    if made.kind in ("bloom", "bitmap"):
        yield "sized for exactly this many URLs: with more, false positives exceed the bound"
    if made.kind == "exact":
        yield f"for crawls only: keeps about {_ROW_BYTES} bytes per URL on disk, with a cache in memory"
    if made.kind == "bitmap":
        yield "a Bloom filter gives the same answers with much less memory"
    if made.kind not in LEDGER_KINDS and made.urls_skipped >= _WORTH_NAMING:
        yield f"up to {counted(round(made.urls_skipped), 'new URL')} may be mistaken for seen and never fetched"


def disk_bytes(kind: str, urls: int) -> int:
    """Return how many bytes of disk a crawl needs to confirm the answers of a filter of this kind."""
    if kind == "exact":
        return urls * _ROW_BYTES
    return urls * _LEDGER_BYTES if kind in LEDGER_KINDS else 0


def _as_json(made: Comparison) -> dict[str, Any]:
    seen, compacted = made.seen, made.compacted
    return {
        "urls": made.urls,
        "fpp": seen.fpp,
        "capacity": seen.capacity,
        "memory_available": made.free,
        "kinds": [_row_as_json(one, made.urls, made.free) for one in made.plans],
        "compacted": compacted
        and {"compact_slices": seen.compact_slices, **_row_as_json(compacted, made.urls, made.free)},
        "impossible": dict(made.impossible),
    }


def _row_as_json(made: Plan, urls: int, free: int | None) -> dict[str, Any]:
    return {
        "kind": made.kind,
        "bytes": made.size,
        "peak_bytes": made.peak,
        "bits_per_url": made.bits_per_url,
        "slices": made.slices,
        "fpp": made.fpp,
        "expected_urls_skipped": made.urls_skipped,
        "forgets": made.forgets,
        "disk_bytes": disk_bytes(made.kind, urls),
        "warnings": list(warnings(made, free)),
    }


def _as_text(made: Comparison) -> Iterator[str]:
    seen, free, compacted = made.seen, made.free, made.compacted
    capacity = f"first slice of {seen.capacity:,} for kinds that grow"
    yield f"{counted(made.urls, 'URL')}, false positives at most {probability(seen.fpp)}, {capacity}"
    yield f"{free:,} bytes of memory are free here" if free is not None else "the amount of free memory is unknown"
    yield ""
    heads = ("kind", "bytes", "at most", "bits/URL", "slices", "fpp then", "disk", "skipped without ledger", "forgets")
    in_a_crawl = [] if compacted is None else [("scalable, in a crawl", compacted)]
    named = [*in_a_crawl, *((one.kind, one) for one in made.plans)]
    rows = [
        (
            name,
            f"{one.size:,}",
            f"{one.peak:,}",
            f"{one.bits_per_url:.1f}",
            str(one.slices),
            probability(one.fpp),
            f"{disk_bytes(one.kind, made.urls):,}",
            f"{one.urls_skipped:,.1f}" if one.urls_skipped < 1000 else f"{one.urls_skipped:,.0f}",
            "yes" if one.forgets else "no",
        )
        for name, one in named
    ]
    yield from text_table(heads, rows)
    yield ""
    if compacted is not None:
        yield "a crawl and `dedup --filter` rebuild a scalable chain as one slice (seen.compact_slices)"
    yield (
        f"with {', '.join(LEDGER_KINDS)}, a crawl has a ledger unless --no-ledger is given: the ledger takes "
        f"{made.urls * _LEDGER_BYTES:,} bytes of disk, and no URL is skipped by mistake"
    )
    for kind, why in made.impossible.items():
        yield f"{kind}: not possible: {why}"
    for name, one in named:
        for warning in warnings(one, free):
            yield f"{name}: {warning}"
