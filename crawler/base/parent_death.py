"""Lets a process that works for another one end when that ends, even by SIGKILL."""

from __future__ import annotations

import contextlib
import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, whatever it does then."""
    with contextlib.suppress(AttributeError):  # Linux and its C library have it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
