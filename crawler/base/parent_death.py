"""Ends a child process when its parent ends, even by SIGKILL."""

from __future__ import annotations

import contextlib
import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, whatever this process is doing."""
    with contextlib.suppress(AttributeError):  # exists only on Linux with its C library
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
