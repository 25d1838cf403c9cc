"""Feed made-up input to what reads the web, and compare with those who read it too.

    python benchmarks/fuzz/run.py [--only NAME ...] [--seconds 600] [--seed 1] [--at NUMBER] [--most 1]

Each fuzzer makes inputs from a seed, one after the other, and checks each: no exception, no more than a second of
processor time, no difference from the oracles. ``--at`` repeats one input and shows it. ``--most`` goes on after a
difference until so many are found. The run ends with 1 if there was any.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.fuzz import charsets, links, robots, sitemaps, tokens, urls
from benchmarks.kit.machine import describe_machine

LONGEST = 1.0  # seconds of processor time for one input: the oracles take most of it
_ORACLES = ("ada-url", "selectolax", "html5lib", "webencodings")


@dataclass(frozen=True)
class Fuzzer:
    """``make`` an input, ``check`` it: the answer is a word to be counted, an AssertionError says what differs."""

    name: str
    make: Callable[[random.Random], Any]
    check: Callable[[Any], str]


@dataclass
class Found:
    """What came of a run."""

    answers: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    slowest: float = 0.0  # seconds of processor time
    seconds: float = 0.0


FUZZERS = tuple(
    Fuzzer(module.__name__.rpartition(".")[2], module.make, module.check)
    for module in (urls, robots, sitemaps, charsets, links, tokens)
)


class TooSlowError(BaseException):
    """An input took more processor time than any may."""


def _too_slow(*_: object) -> None:
    raise TooSlowError


def made(fuzzer: Fuzzer, seed: int, number: int) -> Any:
    """Input ``number`` of a seed, whatever came before it."""
    return fuzzer.make(random.Random(f"{fuzzer.name} {seed} {number}"))


def fuzz(fuzzer: Fuzzer, seconds: float, seed: int, most: int = 1, inputs: float = math.inf) -> Found:
    """Try inputs for some seconds, or until ``most`` differences are found, or so many ``inputs``."""
    found, number, start = Found(), 0, time.monotonic()
    before = signal.signal(signal.SIGPROF, _too_slow)
    try:
        while number < inputs and time.monotonic() - start < seconds and len(found.differences) < most:
            attempt(fuzzer, seed, number, found)
            number += 1
    finally:
        signal.signal(signal.SIGPROF, before)
    found.seconds = time.monotonic() - start
    return found


def attempt(fuzzer: Fuzzer, seed: int, number: int, found: Found) -> None:
    """Try one input."""
    given = made(fuzzer, seed, number)
    used = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LONGEST)  # reaches Python and its patterns; the look after it, libraries too
    try:
        answer = fuzzer.check(given)
    except TooSlowError:
        answer = ""
    except Exception as error:  # noqa: BLE001 (whatever it is, it is told with its input)
        _keep(found, fuzzer, number, given, f"{type(error).__name__}: {error}")
        return
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    used = time.process_time() - used
    found.slowest = max(found.slowest, used)
    if not answer or used > LONGEST:
        _keep(found, fuzzer, number, given, f"{used:.1f} s of processor time")
    found.answers[answer or "too slow"] += 1


def _keep(found: Found, fuzzer: Fuzzer, number: int, given: object, why: str) -> None:
    found.differences.append(f"{fuzzer.name}, input {number}: {why}\n    {given!r}")


def main(words: Sequence[str]) -> int:
    """Run the fuzzers that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[each.name for each in FUZZERS], default=[], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=600.0, help="of each fuzzer (600)")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs (1)")
    parser.add_argument("--at", type=int, metavar="NUMBER", help="one input only, shown")
    parser.add_argument("--most", type=int, default=1, help="differences before a fuzzer ends (1)")
    chosen = parser.parse_args(words)
    failed = False
    for line in describe_machine(_ORACLES):
        print(line)
    print(f"\nseed {chosen.seed}; wrong: an exception, a difference, {LONGEST:.0f} s for an input")
    for fuzzer in [each for each in FUZZERS if not chosen.only or each.name in chosen.only]:
        if chosen.at is not None:
            given = made(fuzzer, chosen.seed, chosen.at)
            print(repr(given))
            print(fuzzer.check(given))
            continue
        found = fuzz(fuzzer, chosen.seconds, chosen.seed, chosen.most)
        inputs = found.answers.total() + len(found.differences)
        answers = ", ".join(f"{answer} {count:,}" for answer, count in found.answers.most_common())
        times = f"in {found.seconds:.0f} s, the slowest {1000 * found.slowest:.0f} ms"
        print(f"{fuzzer.name:<10}{inputs:>12,} inputs {times}; {len(found.differences)} wrong")
        print(f"{'':<10}{answers}", flush=True)
        for difference in found.differences:
            failed = True
            print(difference)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
