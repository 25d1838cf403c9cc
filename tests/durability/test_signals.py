"""SIGINT, SIGTERM and SIGHUP at every moment of a crawl: exit 130, or 0 if it was through, no traceback, and the same
command goes on."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.base.disk import CRASH_AT
from tests.crash_points import CRAWL_POINTS
from tests.jobs import verify
from tests.outputs import records
from tests.program import PATIENCE, ROOT, Ran, crawler, running, wait_until
from tests.site import Site, tree

PAGES = 40
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CONFIG = """
[durability]
sync_interval = 0.02
checkpoint_interval = 0.06
[seen]
capacity = 8
fpp = 1e-9
[output]
keep = ["links", "bodies"]
pages_size = 1500
"""
OWN = {"PYTHONNODEBUGRANGES": "1"}  # makes the program start an interpreter of its own


@pytest.fixture(scope="module")
def site() -> Any:
    with Site(tree(PAGES), latency=0.005) as made:
        yield made


def words(directory: Path, site: Site) -> list[str | Path]:
    (directory / "seeds.txt").write_text(site.url("/") + "\n")
    (directory / "quick.toml").write_text(CONFIG)
    options = ("--allow-private", "--delay", "0", "--per-host", "2")
    return [directory / "seeds.txt", "--job", directory / "job", "--config", directory / "quick.toml", *options]


def catches_signals(process: Any) -> bool:
    """Whether SIGTERM no longer kills the process, as it does in the first milliseconds of any interpreter."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def ended_well(code: int, err: str, *codes: int) -> None:
    assert code in (130, *codes), err
    assert "Traceback" not in err
    assert "Exception" not in err
    assert "Error" not in err


def goes_on(directory: Path, site: Site) -> None:
    """Nothing was lost by any of the signals, and nothing is done twice."""
    ran = crawler(*words(directory, site), "--quiet")
    assert (ran.code, ran.err) == (0, "")
    urls = [record["url"] for record in records(directory / "job")]
    assert sorted(urls) == sorted(site.url(path) for path in tree(PAGES))
    assert verify(directory / "job").code == 0


def signalled_at(point: str, number: signal.Signals, directory: Path, site: Site) -> Ran:
    return crawler(*words(directory, site), env={CRASH_AT: f"{point}:1:{number.name}"})


@pytest.mark.parametrize(("point", "number"), list(zip(CRAWL_POINTS, itertools.cycle(SIGNALS), strict=False)))
def test_a_signal_at_every_named_place(tmp_path: Path, site: Site, point: str, number: signal.Signals) -> None:
    if point == "resume.postponed":  # a page must have been read when the process died
        assert crawler(*words(tmp_path, site), env={CRASH_AT: "parsing:5"}).code == -signal.SIGKILL
    elif point in ("pages.compressed", "pages.renamed"):  # of a file that a generation of an earlier run covers
        assert crawler(*words(tmp_path, site), env={CRASH_AT: "checkpoint.trimmed"}).code == -signal.SIGKILL
    elif point.startswith("resume."):
        assert crawler(*words(tmp_path, site), "--max-pages", "5").code == 0
    ran = signalled_at(point, number, tmp_path, site)
    # The last generation is written when the crawl is through.
    through = (0,) if point.startswith(("checkpoint.", "compaction.", "sync.", "pages.")) else ()
    ended_well(ran.code, ran.err, *through)
    goes_on(tmp_path, site)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_as_soon_as_the_program_runs(tmp_path: Path, site: Site, number: signal.Signals) -> None:
    """Before it has imported what takes most of its start, which here never comes to its end."""
    (tmp_path / "selectolax.py").write_text("import time\ntime.sleep(3600)\n")
    with running(*words(tmp_path, site), env={**os.environ, "PYTHONPATH": str(tmp_path)}) as process:
        while not catches_signals(process):
            assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, len(err.splitlines())) == (130, b"", 1), "it says so, as at any other moment"
        assert b"interrupted" in err
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_program_takes_itself_apart(tmp_path: Path, site: Site, number: signal.Signals) -> None:
    """The summary is the last that it says: what comes later no longer changes the code."""
    with running(*words(tmp_path, site), "--max-pages", "3", env={**os.environ, **OWN}) as process:
        said = b""
        while b".jsonl" not in said:
            said += process.stderr.readline()
        while process.poll() is None:
            process.send_signal(number)
        err = said + process.stderr.read()
    assert process.returncode in (0, 130), err
    assert b"Traceback" not in err
    assert b"Exception" not in err


def test_hanging_up_a_crawl_under_nohup_changes_nothing(tmp_path: Path, site: Site) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with running(*words(tmp_path, site), preexec_fn=ignore) as process:
        while not (tmp_path / "job" / "pages.jsonl").exists():
            assert process.poll() is None
        for _ in range(10):
            process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0


@pytest.mark.parametrize("command", ["tail", "add"])
@pytest.mark.parametrize("number", SIGNALS)
def test_other_commands_end_as_by_ctrl_c(tmp_path: Path, site: Site, command: str, number: signal.Signals) -> None:
    assert crawler(*words(tmp_path, site), "--max-pages", "3").code == 0
    more = ("--follow",) if command == "tail" else ("-",)
    with running(command, tmp_path / "job", *more, stdin=-1) as process:
        wait_until(lambda: catches_signals(process), "it runs")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    ended_well(process.returncode, err.decode())


def test_ready_is_said_once_the_job_is_open_and_not_before(tmp_path: Path, site: Site) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        assert crawler(*words(tmp_path, site), "--max-pages", "3").code == 0
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        for point in ("resume.opened", "resume.requeued"):
            assert crawler(*words(tmp_path, site), env={**env, CRASH_AT: point}).code == -signal.SIGKILL
            with pytest.raises(BlockingIOError):
                listening.recv(4_096)
        assert crawler(*words(tmp_path, site), env=env).code == 0
        assert listening.recv(4_096).startswith(b"READY=1\n")


@contextlib.contextmanager
def stalled(tmp_path: Path, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Site, str]]:
    """A crawl that has begun, the end of its standard error that nobody reads and in which there is no room left, the
    site, and the address of the dashboard."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with Site(tree(5_000), latency=0.005) as site:
        command = [sys.executable, "-m", "crawler", *map(str, words(tmp_path, site)), "--dashboard", "0", *more]
        with subprocess.Popen(command, stderr=writer, stdin=-3, stdout=-3, cwd=tmp_path, env=environment) as process:
            try:
                wait_until(lambda: len(site.pages_asked()) > 10, "pages")
                os.set_blocking(writer, False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(writer, b"x")
                os.set_blocking(writer, True)
                os.close(writer)
                address = json.loads((tmp_path / "job" / "live.json").read_bytes())["dashboard"]
                yield process, reader, site, address
            finally:
                process.kill()
                os.close(reader)


def test_a_reader_that_stalls_delays_neither_pages_nor_signals(tmp_path: Path) -> None:
    (tmp_path / "printing.py").write_text(
        "import sys\n\ndef lines(page):\n    sys.stderr.write('a line of a function\\n' * 2_000)\n"
    )
    with stalled(tmp_path, "--on-page", "printing:lines") as (process, reader, site, address):
        before = len(site.pages_asked())
        wait_until(lambda: len(site.pages_asked()) > before + 100, "more pages")  # and 4 MB of lines
        with urllib.request.urlopen(f"{address}healthz", timeout=PATIENCE) as answer:
            assert answer.status == 200
        process.terminate()
        said = b""
        while b"not shown" not in said:
            said += os.read(reader, 2**16)
        while piece := os.read(reader, 2**16):  # the reader goes on to read
            said += piece
        assert process.wait(PATIENCE) == 130
    notes = [line for line in said.decode().splitlines() if "not shown" in line]
    dropped = sum(int(note.split()[0].replace(",", "")) for note in notes)
    assert dropped > 100_000
    assert (said.count(b"a line of") + dropped) % 2_000 < 50, "the rest are lines of the crawl itself"


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]])
def test_a_signal_ends_a_run_whose_reader_has_stalled(tmp_path: Path, signals: list[signal.Signals]) -> None:
    with stalled(tmp_path) as (process, _, _, _):
        for number in signals:
            process.send_signal(number)
        assert process.wait(PATIENCE) == 130
