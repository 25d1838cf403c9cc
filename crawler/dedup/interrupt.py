"""SIGINT and SIGTERM as something that can be waited for, so that neither finds a block half done."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While it is entered, the first signal makes ``fd`` readable; a second one raises KeyboardInterrupt."""

    def __enter__(self) -> Interruption:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._came = False
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
        if self._came:
            raise KeyboardInterrupt
        self._came = True
