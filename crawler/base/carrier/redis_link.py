"""One connection to one Redis or Valkey server. The commands of all callers share it, and are sent together."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import Connection
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from crawler.base.carrier.engine_address import PASSWORD, PASSWORD_FILE, USER, Server
from crawler.base.carrier.verbs import CarrierError, CarrierFullError, CarrierRefusedError

PATIENCE = 5.0  # seconds to wait for an answer
OLDEST = 7  # oldest major version of Redis with all required features
SAFE_POLICY = "noeviction"
# Errors of different versions for a command in a script that the user may not use.
_NOT_IN_SCRIPTS = ("user executing the script can't", "ACL failure in script")

Word = str | bytes | int
Words = Sequence[Word]
Answers = list[Any]  # one answer for each command: bytes, numbers, None, lists, ResponseError


class RedisLink:
    """Connects on the first request, and again after an error. Each time it checks that the server is suitable."""

    def __init__(self, server: Server, make: Callable[[], Connection], patience: float) -> None:
        """``patience`` is the time to wait for the answers to commands that are sent together, in seconds."""
        self.server = server
        self.clustered = False  # as reported by the server at the last connection
        self._make = make
        self._patience = patience
        self._connection: Connection | None = None
        self._queue: list[tuple[Sequence[Words], asyncio.Future[Answers | Exception]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def ask(self, commands: Sequence[Words]) -> Answers:
        """Return the answers to commands that are sent consecutively.

        Raises CarrierError and CarrierRefusedError; a server's error for a single command is an answer. Cancelling a
        caller does not affect the others.
        """
        answer: asyncio.Future[Answers | Exception] = asyncio.get_running_loop().create_future()
        self._queue.append((commands, answer))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
        said = await answer
        if isinstance(said, Exception):
            raise said
        return said

    async def close(self) -> None:
        """Close the connection. Waiting requests fail."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        self._settle(self._queue, CarrierError(f"the connection to {self.server} was closed"))
        self._queue = []
        await self._drop()

    async def _send_all(self) -> None:
        while self._queue:
            batch = [(commands, answer) for commands, answer in self._queue if not answer.done()]
            self._queue = []
            try:
                async with asyncio.timeout(self._patience):
                    answers = await self._exchange([command for commands, _ in batch for command in commands])
            except (RedisError, OSError, CarrierError, CarrierRefusedError) as error:
                # A connection with unread data can no longer be trusted.
                await self._drop()
                self._settle(batch, told(error, self.server))
            except BaseException as error:
                closed = CarrierError(f"the connection to {self.server} was closed")
                self._settle(batch, error if isinstance(error, Exception) else closed)
                raise
            else:
                for commands, answer in batch:
                    if not answer.done():
                        answer.set_result(answers[: len(commands)])
                    del answers[: len(commands)]

    async def _exchange(self, commands: list[Words]) -> Answers:
        connection = await self._connected()
        return await _exchange(connection, commands)

    async def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._make()
            try:
                await connection.connect()  # type: ignore[no-untyped-call]
                (info,) = await _exchange(connection, [("INFO",)])
                if isinstance(info, ResponseError):
                    raise info
                self.clustered = check_server(info, self.server)
            except BaseException:
                await _disconnect(connection)
                raise
            self._connection = connection
        return self._connection

    async def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await _disconnect(connection)

    def _settle(
        self, batch: list[tuple[Sequence[Words], asyncio.Future[Answers | Exception]]], error: Exception
    ) -> None:
        for _, answer in batch:
            if not answer.done():
                answer.set_result(error)


async def _exchange(connection: Connection, commands: list[Words]) -> Answers:
    await connection.send_packed_command(connection.pack_commands(commands))
    answers: Answers = []
    for _ in commands:
        try:
            answers.append(await connection.read_response())
        except ResponseError as error:
            answers.append(_classed(error))
    return answers


def _classed(error: ResponseError) -> ResponseError:
    """Return the specific error class, which some versions of redis create only in their cluster client."""
    word, _, rest = str(error).partition(" ")
    known = {"MOVED": MovedError, "ASK": AskError, "TRYAGAIN": TryAgainError}.get(word)
    return error if known is None else known(rest)


async def _disconnect(connection: Connection) -> None:
    with suppress(RedisError, OSError):  # the connection is lost in any case
        await connection.disconnect(nowait=True)


def check_server(info: bytes, server: Server) -> bool:
    """Return True if a server is part of a cluster, by its answer to INFO.

    Raises CarrierRefusedError if it is unsuitable.
    """
    said = dict(line.split(":", 1) for line in info.decode("utf-8", "replace").splitlines() if ":" in line)
    version = said.get("redis_version", "")
    major = version.partition(".")[0]
    if not major.isdecimal():
        raise CarrierRefusedError(f"{server} is neither Redis nor Valkey: name a Redis or Valkey server")
    if int(major) < OLDEST:
        raise CarrierRefusedError(f"{server} is Redis {version}: {OLDEST}.0 or later is needed, or Valkey")
    policy = said.get("maxmemory_policy", SAFE_POLICY)
    if policy != SAFE_POLICY:
        raise CarrierRefusedError(
            f"{server} drops keys when its memory is full (maxmemory-policy {policy}): set maxmemory-policy "
            f"{SAFE_POLICY}"
        )
    return said.get("cluster_enabled") == "1"


def told(error: Exception, server: Server) -> Exception:
    """Return the exception that the carrier raises for an error of a connection, or of a server's answer."""
    if isinstance(error, CarrierError | CarrierRefusedError):
        return error
    text = " ".join(str(error).split())[:300]
    if isinstance(error, AuthenticationError | AuthenticationWrongNumberOfArgsError):
        return CarrierRefusedError(
            f"{server} refused the login ({text}): check {USER} and {PASSWORD} or {PASSWORD_FILE}"
        )
    if isinstance(error, OutOfMemoryError):
        return CarrierFullError(f"{server} is out of memory ({text})")
    if isinstance(error, NoPermissionError) or any(said in text for said in _NOT_IN_SCRIPTS):
        return CarrierRefusedError(f"{server} does not grant its user the required permissions ({text})")
    if text.startswith("WRONGTYPE"):
        return CarrierRefusedError(
            f"{server} contains keys of another program under the names of this one: choose another name"
        )
    if text.startswith(("unknown command", "ERR unknown command")):
        return CarrierRefusedError(f"{server} lacks a required command ({text})")
    if "CERTIFICATE_VERIFY_FAILED" in text or isinstance(error.__context__, ssl.SSLCertVerificationError):
        return CarrierRefusedError(
            f"the certificate of {server} is not trusted ({text}): name its CA certificate in SSL_CERT_FILE"
        )
    if isinstance(error, TimeoutError):
        return CarrierError(f"{server} did not answer")
    cause = error.__context__
    if isinstance(cause, OSError) and cause.errno:
        reason = os.strerror(cause.errno) if cause.errno > 0 else cause.strerror
        return CarrierError(f"{server} cannot be reached: {reason}")
    return CarrierError(f"{server}: {text or type(error).__name__}")
