"""What is chance to the crawler: the same bytes in each run of a test, and others in the next test.

A filter errs on other keys with another secret, and a small one often enough that figures and sizes differ. So a test
could fail once in fifty runs. With secrets that repeat it fails always or never, and ``SECRETS=1``, ``SECRETS=2`` ...
tries it with other ones: what is asserted has to hold for each.

A test about chance itself is marked ``real_secrets``, and gets those of the operating system.
"""

from __future__ import annotations

import os
from hashlib import shake_256
from itertools import count

from crawler.base import entropy

BASE = os.environ.get("SECRETS", "0")


class Chance:
    """Stands in for ``entropy.random_bytes``: bytes that follow from a name and from how often it was asked.

    Hypothesis seeds it as it seeds ``random`` (see ``tests/conftest.py``: the programs that tests start need not load
    Hypothesis), so that an example that failed fails again.
    """

    def __init__(self) -> None:
        self._real = entropy.random_bytes
        self._test = ""
        self._state = ("", count())

    def begin(self, name: str) -> None:
        """Let the bytes follow from ``name`` from now on."""
        self._test = name
        self._state = (name, count())
        entropy.random_bytes = self.random_bytes

    def end(self) -> None:
        """Leave it to the operating system."""
        entropy.random_bytes = self._real

    def random_bytes(self, size: int) -> bytes:
        name, asked = self._state
        return shake_256(f"{BASE} {name} {next(asked)}".encode()).digest(size)

    def name_of_a_program(self) -> str | None:
        """From which a program that starts now makes its secrets; None: they are real."""
        return None if entropy.random_bytes is self._real else self.random_bytes(8).hex()

    # -- what Hypothesis asks of a source

    def seed(self, number: int) -> None:
        self._state = (f"{self._test}, example {number}", count())

    def getstate(self) -> tuple[str, count[int]]:
        return self._state

    def setstate(self, state: tuple[str, count[int]]) -> None:
        self._state = state


CHANCE = Chance()
NO_TEST = "before the first test"
CHANCE.begin(NO_TEST)
