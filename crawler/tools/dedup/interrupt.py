"""Delivers SIGINT and SIGTERM as a readable descriptor, so that no signal interrupts a block half-way."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Inside the context, the first signal makes ``fd`` readable; a second one raises KeyboardInterrupt."""

    def __enter__(self) -> Interruption:
        self.fd, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._signalled_before = False
        self._wakeup = signal.set_wakeup_fd(self._write)
        self._before: list[Any] = [signal.signal(number, self._signalled) for number in _SIGNALS]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in zip(_SIGNALS, self._before, strict=True):
            signal.signal(number, before)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.fd)
        os.close(self._write)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._signalled_before:
            raise KeyboardInterrupt
        self._signalled_before = True
