"""Child processes and their cost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

import crawler


class Cost(Struct, frozen=True):
    """The resources that one process used, including the children it waited for."""

    cpu: float  # seconds of CPU time, user and system
    wall: float  # seconds of elapsed time
    rss: float  # peak, in MiB
    code: int  # exit code; if negative, the signal that ended the process


def module_environment() -> dict[str, str]:
    """Return our own environment, extended so that a child finds this package from any directory."""
    root = str(Path(crawler.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def run(command: Sequence[str], log: Path, directory: Path, env: dict[str, str] | None = None) -> Cost:
    """Run ``command`` in ``directory`` until it exits. Appends its output to ``log``."""
    with log.open("ab") as sink:
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env)
        # Use wait4 instead of Popen, because only wait4 returns the resource usage of this child.
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(
        cpu=usage.ru_utime + usage.ru_stime,
        wall=time.monotonic() - began,
        rss=usage.ru_maxrss / 1024,
        code=process.returncode,
    )
