"""Ends a child process when its parent ends, even by SIGKILL."""

from __future__ import annotations

import contextlib
import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent() -> None:
    """Make the kernel kill this process when its parent ends, whatever this process is doing."""
    with contextlib.suppress(AttributeError):  # prctl exists only in the C library of Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
