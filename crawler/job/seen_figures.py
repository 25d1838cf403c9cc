"""``seen-figures.json``: the statistics of the seen-set in a snapshot in a bucket, so that observers of the crawl need
not fetch the filters. No other directory of a job has the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from crawler.base.disk import Disk, write_file
from crawler.job.checkpoint.envelope import encode_envelope, read_envelope
from crawler.job.directory import SEEN_FIGURES
from crawler.seen.filters import SeenSet, SeenStatistics

MAGIC = "crawler-seen-figures"
VERSION = 1


class SeenFigures(Struct, frozen=True):
    """The statistics of a seen-set, and its parameters."""

    statistics: SeenStatistics
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, seen: SeenSet) -> SeenFigures:
        """Return the current figures of a seen-set."""
        return cls(seen.statistics(), seen.parameters())


def write_seen_figures(disk: Disk, directory: Path, seen: SeenSet) -> None:
    """Write the file, which must not exist. Raises OSError."""
    content = asdict(SeenFigures.of(seen))
    write_file(disk, directory / SEEN_FIGURES, encode_envelope(MAGIC, VERSION, content))


def read_seen_figures(directory: Path) -> SeenFigures | None:
    """Read the file; None if it is missing. Raises EnvelopeError, OSError."""
    try:
        content = read_envelope(directory / SEEN_FIGURES, MAGIC, VERSION, SEEN_FIGURES)
    except FileNotFoundError:
        return None
    return SeenFigures(content["statistics"], content["parameters"])
