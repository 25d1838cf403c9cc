"""What does it cost to know which URLs were seen? All ways on the same URLs: space, time, errors, restart.

    python benchmarks/studies/membership.py [--keys N] [--out FILE.svg]

The table is printed; with --out a plot goes to FILE.svg, and the table beside it as .txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from benchmarks.studies.bar_chart import Panel, bar_chart
from benchmarks.studies.chance import rate_range
from benchmarks.studies.rivals import Membership, Rival, rivals
from benchmarks.studies.sample_keys import urls
from benchmarks.studies.words import PACKAGES, count, show
from crawler.service.progress.text_table import text_table

KEYS = 1_000_000
BATCH = 256  # URLs asked at a time: the links of a few pages


@dataclass(frozen=True, slots=True)
class MembershipResult:
    """Of one way, with ``keys`` URLs in and as many others asked."""

    name: str
    keys: int
    memory: int  # bytes that grow with the URLs
    disk: int  # bytes when closed
    add: float  # nanoseconds of CPU time a URL, asked and added
    ask_absent: float
    ask_present: float
    skipped: int  # URLs called known while they were added
    false_positives: int  # of ``keys`` absent URLs, with all in
    false_negatives: int
    restart: float  # seconds from closed to the first answer

    @property
    def kept(self) -> float:
        """Bytes a URL where it is looked up: in memory, or on disk for what keeps next to nothing there."""
        return (self.memory or self.disk) / self.keys

    @property
    def error_rate(self) -> float:
        return self.false_positives / self.keys


def study_membership(directory: Path, keys: int = KEYS) -> Iterator[MembershipResult]:
    """Every way in its turn; each keeps its files in ``directory``. Raises OSError when they cannot be written."""
    present, absent = urls(keys), urls(keys, absent=True)
    for number, rival in enumerate(rivals()):
        yield _result(rival, directory / f"{number}", present, absent)


def _result(rival: Rival, path: Path, present: list[str], absent: list[str]) -> MembershipResult:
    keys = len(present)
    held = rival.begin(path, keys)
    new, add = _timed(held.add, present)
    false_positives, ask_absent = _timed(held.count, absent)
    found, ask_present = _timed(held.count, present)
    memory = held.memory()
    held.close()
    del held
    disk = _size(path)
    began = time.perf_counter()
    again: Membership = rival.reopen(path)
    again.count(present[:1])
    restart = time.perf_counter() - began
    false_negatives = keys - min(found, _timed(again.count, present)[0])
    again.close()
    return MembershipResult(
        name=rival.name,
        keys=keys,
        memory=memory,
        disk=disk,
        add=add,
        ask_absent=ask_absent,
        ask_present=ask_present,
        skipped=keys - new,
        false_positives=false_positives,
        false_negatives=false_negatives,
        restart=restart,
    )


def _timed(ask: Callable[[Sequence[str]], int], keys: list[str]) -> tuple[int, float]:
    """The sum of the answers, batch by batch; and nanoseconds of CPU time a key, of all threads."""
    batches = [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
    began = time.process_time_ns()
    total = sum(map(ask, batches))
    return total, (time.process_time_ns() - began) / len(keys)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def membership_table(results: Sequence[MembershipResult]) -> list[str]:
    """A row a way."""
    rows = []
    for result in results:
        low, high = rate_range(result.false_positives, result.keys)
        rows.append(
            [
                result.name,
                f"{result.memory / result.keys:.1f}" if result.memory else "bounded",
                f"{result.disk / result.keys:.1f}",
                f"{result.add:,.0f}",
                f"{result.ask_absent:,.0f}",
                f"{result.ask_present:,.0f}",
                f"{result.error_rate:.4%}",
                f"{low:.4%} to {high:.4%}",
                f"{result.skipped:,}",
                f"{result.false_negatives:,}",
                f"{result.restart * 1000:,.1f}",
            ]
        )
    return text_table(
        [
            "way",
            "B/URL in memory",
            "on disk",
            "add ns",
            "ask absent ns",
            "ask present ns",
            "error rate",
            "95% interval",
            "URLs skipped",
            "false negatives",
            "restart ms",
        ],
        rows,
    )


def membership_plot(results: Sequence[MembershipResult]) -> str:
    """SVG text: bytes and time a URL, error rate and restart, a row a way."""
    keys = results[0].keys
    return bar_chart(
        f"Which of {keys:,} URLs were seen?",
        "Logarithmic scales; shorter is better. Bytes in memory, on disk for the databases; CPU time of an addition.",
        [result.name for result in results],
        [
            _panel("bytes a URL", [result.kept for result in results], "{:,.1f}", "#4e79a7"),
            _panel("nanoseconds to ask and add", [result.add for result in results], "{:,.0f}", "#59a14f"),
            _panel("new URLs taken for known", [result.error_rate for result in results], "{:.3%}", "#e15759"),
            _panel("milliseconds to restart", [result.restart * 1000 for result in results], "{:,.1f}", "#b07aa1"),
        ],
    )


def _panel(title: str, values: Sequence[float], form: str, colour: str) -> Panel:
    return Panel(title, values, [form.format(value) if value else "0" for value in values], colour)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--keys", type=count, default=KEYS, metavar="N", help=f"URLs in, and as many asked that are not ({KEYS:,})"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.svg", help="plot there, the table beside it as .txt")
    chosen = parser.parse_args()
    out: Path | None = chosen.out
    # Found out before minutes of work, not after.
    if out is not None and (out.suffix != ".svg" or not out.parent.is_dir()):
        parser.error(f"--out must name a file ending in .svg in an existing directory, not {out}")
    head = [
        *describe_machine(PACKAGES),
        f"keys      {chosen.keys:,} in, {chosen.keys:,} absent, in batches of {BATCH}",
        "",
    ]
    show(head)
    with tempfile.TemporaryDirectory() as directory:
        results = list(study_membership(Path(directory), chosen.keys))
    table = membership_table(results)
    show(table)
    if out is not None:
        out.write_text(membership_plot(results), "utf-8")
        out.with_suffix(".txt").write_text("\n".join([*head, *table, ""]), "utf-8")


if __name__ == "__main__":
    main()
