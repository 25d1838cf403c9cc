"""Creates the seen-set of a tool, and checks that a file matches the given parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters import JSON, KINDS, SEED_ZERO, BloomFilter, Filter, FilterError, KeyHash, make_seen
from crawler.seen.filters.planning import Room, geometry, planned_parameters
from crawler.seen.slices.guava_slice import GUAVA_LAYOUTS
from crawler.seen.slices.layouts import BLOOM_LAYOUTS
from crawler.tools.dedup.store import FilterFileError

LAYOUTS = (*BLOOM_LAYOUTS, *GUAVA_LAYOUTS)
_USUAL = "paired"


class Wanted(NamedTuple):
    """A parameter that the user has given: its label, its name in ``parameters()``, and its value."""

    label: str
    name: str
    value: JSON


def make_hash(settings: SeenSettings, layout: str | None = None) -> KeyHash:
    """Return the hash of a new seen-set: the hash that the layout prescribes, or else one with a new secret."""
    return SEED_ZERO if layout in GUAVA_LAYOUTS else KeyHash.new(settings.hash)


def make_filter(settings: SeenSettings, layout: str | None = None, hash: KeyHash | None = None) -> Filter:
    """Return an empty seen-set; without a ``hash``, it gets a hash with a new secret. Raises FilterError if the kind is
    unknown, or if memory is too small."""
    if settings.kind not in KINDS:
        raise FilterError(f"kind {settings.kind} is not available for lines; choose one of {', '.join(KINDS)}")
    if layout is not None and settings.kind != "bloom":
        raise FilterError(f"a layout can only be chosen for kind bloom, not for {settings.kind}")
    Room(planned_parameters(settings, layout or _USUAL)).need(1)
    if layout is None:
        return make_seen(settings, hash)
    made = hash or make_hash(settings, layout)
    own = geometry(settings, layout)
    return BloomFilter(
        settings.capacity, settings.fpp, layout=layout, bits=own.get("bits"), hashes=own.get("hashes"), hash=made
    )


def room_of(seen: Filter) -> Room:
    """Return the memory budget for the slices that ``seen`` may still open."""
    now = seen.statistics()
    return Room(seen.parameters(), len(now["slices"]), now["slices"][0]["capacity"] if now["compactions"] else None)


def check_agreement(path: Path | None, seen: Filter, wanted: Sequence[Wanted]) -> None:
    """Raise FilterFileError if a given parameter differs from that of ``seen``, stored at ``path``."""
    parameters = seen.parameters()
    for label, name, value in wanted:
        if name not in parameters:
            raise FilterFileError(f"{label} does not apply to a seen-set of kind {seen.kind}")
        if parameters[name] != value:
            where = "the filter" if path is None else f"filter {path}"
            raise FilterFileError(
                f"{label} {value} does not match {where}, which has {name} {parameters[name]}: omit it, or choose "
                "another file"
            )
