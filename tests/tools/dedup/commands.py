"""Commands run inside the test's process, with standard input, output and error of their own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from crawler.cli import main


class Ended(NamedTuple):
    code: int
    out: bytes
    err: str


class Commands:
    """``run("dedup", "--raw", data=b"lines")``."""

    def __init__(self, captured: pytest.CaptureFixture[bytes]) -> None:
        self._captured = captured

    def __call__(self, *words: str | Path, data: bytes = b"") -> Ended:
        self._captured.readouterr()
        kept = os.dup(0)
        try:
            with tempfile.TemporaryFile() as lines:
                lines.write(data)
                lines.seek(0)
                os.dup2(lines.fileno(), 0)
                code = main([str(word) for word in words])
        finally:
            os.dup2(kept, 0)
            os.close(kept)
        out, err = self._captured.readouterr()
        return Ended(code, out, err.decode())

    def refused(self, *words: str | Path, told: tuple[str, ...] = (), data: bytes = b"http://a.test/\n") -> None:
        """Exit 2, nothing printed, one line that says what is wrong."""
        ended = self(*words, data=data)
        assert (ended.code, ended.out) == (2, b""), ended
        assert ended.err.startswith("crawler: error: ")
        assert ended.err.count("\n") == 1
        for word in told:
            assert word in ended.err, ended.err
