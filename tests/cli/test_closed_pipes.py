"""A reader that leaves ends every command quietly, also one that leaves before anything was written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs import Stopped, stopped_job
from tests.program import PATIENCE, ROOT

# Buffered, as for users: what is left in the buffer is written when the interpreter exits.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
LINES = "".join(f"https://a.test/{number}\n" for number in range(5_000)).encode()
COMMANDS = {
    "--help": 0,
    "--version": 0,
    "crawl --help": 0,
    "completion bash": 0,
    "plan --urls 1000": 1,
    "canon": 1,
    "dedup": 1,
    "stats JOB": 1,
    "tail JOB": 1,
    "tail JOB -n 0 --follow": 1,
    "verify JOB": 1,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("stopped"), 5) as made:
        yield made


def ran(command: str, job: Path, **streams: int) -> subprocess.CompletedProcess[bytes]:
    words = [str(job) if word == "JOB" else word for word in command.split()]
    words = [sys.executable, "-m", "crawler", *words]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(words, input=LINES, cwd=ROOT, env=ENVIRONMENT, timeout=PATIENCE, check=False, **given)


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that nobody reads."""
    theirs, ours = os.pipe()
    os.close(theirs)
    yield ours
    os.close(ours)


@pytest.mark.parametrize(("command", "code"), COMMANDS.items())
def test_no_reader_of_the_output(made: Stopped, unread: int, command: str, code: int) -> None:
    done = ran(command, made.job, stdout=unread)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize(("command", "code"), [("dedup", 0), ("stats none", 2), ("--bogus", 2)])
def test_no_reader_of_messages(made: Stopped, unread: int, command: str, code: int) -> None:
    done = ran(command, made.job, stderr=unread)
    assert (done.returncode, done.stdout) == (code, b"" if code else LINES)


def test_what_finds_no_room_at_the_very_end_is_said_in_a_line(made: Stopped) -> None:
    with open("/dev/full", "wb") as full:
        done = ran("stats JOB", made.job, stdout=full.fileno())
    assert done.returncode == 1
    assert (done.stderr.count(b"\n"), b"No space left" in done.stderr) == (1, True)
