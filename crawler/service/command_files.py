"""Words for a running crawl from whoever may write to its directory, as ``crawler dashboard DIR`` does: ``DIR/orders``.

    NAME.order    {"pid": the process that they are for, "do": WORD, "host": HOST or null}
    NAME.done     {"error": why not, or null, "status": of HTTP}

An order is for the process that runs and for no other: what it has not heard when it ends is nobody's, and a crawl that
begins tomorrow is not stopped by what was said today. So nothing is synced. Who leaves one waits for the answer, and
takes it away.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from crawler.checkpoint import EnvelopeError, read_bounded

log = logging.getLogger("crawler")

ORDERS = "orders"
INTERVAL = 0.5  # seconds between two looks for orders
WAIT = 60.0  # seconds that an answer is waited for: a checkpoint takes its time
_POLL = 0.1
_ORDER = ".order"
_DONE = ".done"
_NUMBERS = itertools.count()

Refused = tuple[int, str]  # status of HTTP, and why


async def give_order(directory: Path, pid: int, word: str, host: str | None) -> Refused | None:
    """Leave an order for the process, and wait for what comes of it; None when it is done. Raises OSError."""
    orders = directory / ORDERS
    orders.mkdir(exist_ok=True)
    name = f"{time.time_ns()}-{os.getpid()}-{next(_NUMBERS)}"
    order, done = orders / (name + _ORDER), orders / (name + _DONE)
    _write(order, {"pid": pid, "do": word, "host": host})
    now = asyncio.get_running_loop().time
    deadline = now() + WAIT
    try:
        while now() < deadline:
            await asyncio.sleep(_POLL)
            with suppress(FileNotFoundError):
                answer = _read(done)
                return None if answer["error"] is None else (int(answer["status"]), str(answer["error"]))
    finally:
        for path in (order, done):
            path.unlink(missing_ok=True)
    return 504, "the crawl has not answered"


async def obey(directory: Path, perform: Callable[[Any], Awaitable[Refused | None]]) -> None:
    """Do what orders say, one after the other, until cancelled."""
    orders = directory / ORDERS
    while True:
        try:
            for path in _entries(orders):
                order = _heard(path)
                if order is not None:
                    status, why = await perform(order) or (200, None)
                    _write(path.with_suffix(_DONE), {"error": why, "status": status})
        except OSError as error:
            log.warning("%s: %s", ORDERS, error.strerror)  # a full disk, say: who asked hears that nobody answers
        await asyncio.sleep(INTERVAL)


def _entries(orders: Path) -> list[Path]:
    try:
        return sorted(orders.iterdir())
    except FileNotFoundError:
        return []


def _heard(path: Path) -> Any:
    """The order in the file, which is removed; None where it is none, or not for this process."""
    try:
        if path.suffix != _ORDER:
            if time.time() - path.stat().st_mtime > WAIT:
                path.unlink()  # who asked has gone
            return None
        order = _read(path)
        path.unlink()
    except FileNotFoundError:
        return None  # who asked has just gone
    except (EnvelopeError, ValueError):
        path.unlink(missing_ok=True)
        return None
    return order if isinstance(order, dict) and order.get("pid") == os.getpid() else None


def _write(path: Path, content: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), "ascii")
    part.replace(path)


def _read(path: Path) -> Any:
    return json.loads(read_bounded(path, path.name).decode("ascii"))
