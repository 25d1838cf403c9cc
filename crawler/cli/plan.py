"""``crawler plan``: what each kind of seen-set would take for a crawl not yet begun."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from crawler.bench.table import text_table
from crawler.cli.errors import Exit, UsageError
from crawler.dedup.memory import available_memory
from crawler.filters import FilterError, Plan, plan
from crawler.settings import SeenSettings, SettingsError, settings_from

_WORTH_NAMING = 0.5  # URLs


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "For each kind of seen-set: memory, bits a URL, slices, false positives and what they cost."
    parser.add_argument("--urls", type=int, required=True, metavar="N", help="distinct URLs that will be found")
    parser.add_argument("--fpp", type=float, metavar="P", help="bound on the false-positive probability (0.001)")
    parser.add_argument("--capacity", type=int, metavar="N", help="keys in the first slice (1048576)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    given = {name: getattr(arguments, name) for name in ("fpp", "capacity")}
    urls: int = arguments.urls
    try:
        seen = settings_from({"seen": {name: value for name, value in given.items() if value is not None}}).seen
        plans = plan(urls, seen.fpp, seen.capacity, seen.growth, seen.tightening)
    except (SettingsError, FilterError) as problem:
        raise UsageError(str(problem).removeprefix("configuration: ")) from problem
    except (OverflowError, ZeroDivisionError):
        raise UsageError(f"no memory could hold a seen-set for {urls} URLs at an fpp of {seen.fpp:.3g}") from None
    free = available_memory()
    if arguments.json:
        print(json.dumps(_as_json(urls, seen, plans, free), indent=2))
    else:
        print("\n".join(_as_text(urls, seen, plans, free)))
    return Exit.OK


def warnings(made: Plan, free: int | None) -> Iterator[str]:
    """What should be known before that kind is chosen."""
    if free is not None and made.size > free:
        yield f"takes more memory than the {free:,} bytes that are free here"
    if made.kind in ("bloom", "bitmap"):
        yield "made for exactly so many URLs: with more the false positives pass the bound"
    if made.kind == "bitmap":
        yield "a Bloom filter gives the same answers from a fraction of the memory"
    if made.urls_skipped >= _WORTH_NAMING:
        yield f"up to {made.urls_skipped:,.0f} URLs may never be fetched, as they are taken for seen ones"


def _as_json(urls: int, seen: SeenSettings, plans: list[Plan], free: int | None) -> dict[str, Any]:
    kinds = [
        {
            "kind": made.kind,
            "bytes": made.size,
            "bits_per_url": made.bits_per_url,
            "slices": made.slices,
            "fpp": made.fpp,
            "expected_urls_skipped": made.urls_skipped,
            "forgets": made.forgets,
            "warnings": list(warnings(made, free)),
        }
        for made in plans
    ]
    return {"urls": urls, "fpp": seen.fpp, "capacity": seen.capacity, "memory_available": free, "kinds": kinds}


def _as_text(urls: int, seen: SeenSettings, plans: list[Plan], free: int | None) -> Iterator[str]:
    yield f"{urls:,} URLs, false positives at most {seen.fpp:g}, first slice of {seen.capacity:,} where a kind grows"
    yield f"{free:,} bytes of memory are free here" if free is not None else "how much memory is free is not known here"
    yield ""
    heads = ("kind", "bytes", "bits a URL", "slices", "fpp then", "URLs skipped", "forgets")
    rows = [
        (
            made.kind,
            f"{made.size:,}",
            f"{made.bits_per_url:.1f}",
            str(made.slices),
            f"{made.fpp:.2g}",
            f"{made.urls_skipped:,.1f}" if made.urls_skipped < 1000 else f"{made.urls_skipped:,.0f}",
            "yes" if made.forgets else "no",
        )
        for made in plans
    ]
    yield from text_table(heads, rows)
    yield ""
    for made in plans:
        for warning in warnings(made, free):
            yield f"{made.kind}: {warning}"
