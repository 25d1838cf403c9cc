"""Errors of standard output name it: the system names no file, and people look for a full disk elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from crawler.base.named_stream import NamedStream, naming
from crawler.base.printable import PrintableStream, terminal
from crawler.cli import main
from tests.job.test_formats import make_job


@pytest.mark.parametrize("command", ["tail", "stats", "hosts"])
def test_a_command_names_it(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output is on a full disk, and opened as the program opens it."""
    job = make_job(tmp_path / "job")
    with open("/dev/full", "w", buffering=1) as stream:
        monkeypatch.setattr(sys, "stdout", PrintableStream(NamedStream(stream)))
        code = main([command, str(job)])
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # what is buffered has a place to go
    assert code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "crawler: error: [Errno 28] No space left on device: 'standard output'"


def test_other_errors_keep_their_names(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"/missing'$"), naming():
        (tmp_path / "missing").read_bytes()
    with pytest.raises(BrokenPipeError, match="standard output"), naming():
        raise BrokenPipeError(32, "Broken pipe")


def test_it_is_the_other_stream_in_everything_else(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as stream:
        named = PrintableStream(NamedStream(stream))
        named.write("\x1b1\n")
        Console(file=terminal(named)).print("2")  # type: ignore[arg-type]
        named.flush()
        named.buffer.writelines([b"3\n", b"4\n"])
        named.buffer.flush()
        assert named.fileno() == stream.fileno()
        assert not named.isatty()
    assert (tmp_path / "out").read_text() == "\\x1b1\n2\n3\n4\n"
