"""The process that makes a report for the dashboard: it leaves nothing behind, whoever ends first."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.asked import enters, opened
from tests.jobs import Stopped, stopped_job
from tests.program import PATIENCE, running, wait_until


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("jobs"), 20) as stopped:
        yield stopped


def makers_of(process: int) -> list[int]:
    """The children of a process that make reports."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children if b"report.html" in Path(f"/proc/{child}/cmdline").read_bytes()]


def is_there(process: int) -> bool:
    with contextlib.suppress(OSError):
        return b"report.html" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_report_whose_dashboard_ends_leaves_neither_a_process_nor_a_file(
    tmp_path: Path, made: Stopped, end: signal.Signals
) -> None:
    job, temporary = made.copy(tmp_path / "job"), tmp_path / "temporary"
    temporary.mkdir()
    with running("dashboard", job, env={**os.environ, "TMPDIR": str(temporary)}) as process:
        url = enters(process.stdout)

        def ask() -> None:
            with contextlib.suppress(OSError), opened(f"{url}api/download/report.html"):
                pass

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: makers_of(process.pid), "the report is being made")
        (maker,) = makers_of(process.pid)
        os.kill(maker, signal.SIGSTOP)  # it takes long
        process.send_signal(end)
        with contextlib.suppress(ProcessLookupError):
            if end == signal.SIGKILL:
                process.wait(PATIENCE)
            os.kill(maker, signal.SIGCONT)
        process.wait(PATIENCE)
        asking.join(PATIENCE)
        wait_until(lambda: not is_there(maker), "it has ended too")
    left = [path.name for path in temporary.iterdir()]
    if end == signal.SIGKILL:  # then nobody removes what reading a job takes
        left = [name for name in left if not name.startswith("crawler-look-")]
    assert left == []
