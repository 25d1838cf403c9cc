"""The connections to one Redis or Valkey server."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, SSLConnection
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

from crawler.base.carrier.engine_address import PASSWORD, PASSWORD_FILE, USER, Login, Server
from crawler.base.carrier.verbs import CarrierError, CarrierFullError, CarrierRefusedError

PATIENCE = 5.0  # seconds to wait for an answer
OLDEST = 7  # oldest major version of Redis with all required features
SAFE_POLICY = "noeviction"
# Errors, in different versions, for a command that the user may not use in a script.
_NOT_IN_SCRIPTS = ("user executing the script can't", "ACL failure in script")

_MOST_CONNECTIONS = 2_048  # more than are ever in use: one for each turn of the loop whose calls are not answered
_ENCRYPTED: dict[str, Any] = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}

Word = str | bytes | int
Words = Sequence[Word]
Answers = list[Any]  # one answer for each command: bytes, numbers, None, lists, ResponseError


class RedisLink:
    """The connections to one server. Each new connection first checks that the server is suitable. Calls made in one
    turn of the event loop are sent together."""

    def __init__(self, server: Server, login: Login, *, encrypted: bool) -> None:
        self.server = server
        self.clustered = False  # as reported by the server at the last connection
        self._pool = ConnectionPool(
            connection_class=SSLConnection if encrypted else Connection,
            max_connections=_MOST_CONNECTIONS,
            redis_connect_func=self._greet,
            host=server.host,
            port=server.port,
            username=login.user,
            password=login.password,
            # Protocol version 3 changes the form of the answers from Lua scripts and streams.
            protocol=2,
            socket_timeout=None,
            socket_connect_timeout=None,
            socket_keepalive=True,
            **_ENCRYPTED if encrypted else {},
        )
        self._calls: list[tuple[Sequence[Words], asyncio.Future[Answers]]] = []  # to be sent together
        self._sending = set[asyncio.Task[None]]()

    def send(self, commands: Sequence[Words], patience: float) -> asyncio.Future[Answers]:
        """Send commands in order. The server has about ``patience`` seconds to answer.

        Waiting for the answers may raise CarrierError or CarrierRefusedError. If the server reports an error for a
        single command, that error is the answer to the command.
        """
        answers = asyncio.get_running_loop().create_future()
        self._calls.append((commands, answers))
        if len(self._calls) == 1:
            sending = asyncio.create_task(self._send(patience))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
        return answers

    async def _send(self, patience: float) -> None:
        await asyncio.sleep(0)
        calls, self._calls = self._calls, []
        try:
            found = iter(await self._ask([words for commands, _ in calls for words in commands], patience))
        except Exception as error:  # noqa: BLE001 - the callers raise it
            for _, answers in calls:
                if not answers.done():
                    answers.set_exception(error)
                    answers.exception()  # so that asyncio does not log it if the caller has given up
            return
        for commands, answers in calls:
            ours = list(islice(found, len(commands)))
            if not answers.done():  # the caller may have given up
                answers.set_result(ours)

    async def _ask(self, commands: Sequence[Words], patience: float) -> Answers:
        try:
            async with asyncio.timeout(patience):
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                try:
                    return await _exchange(connection, commands)
                finally:
                    await self._pool.release(connection)
        except (RedisError, OSError) as error:  # includes TimeoutError
            raise told(error, self.server) from error

    async def close(self) -> None:
        """Close the connections. Calls that wait for answers fail."""
        await self._pool.disconnect()

    async def _greet(self, connection: Connection) -> None:
        try:
            await connection.on_connect()
            (info,) = await _exchange(connection, [("INFO",)])
            if isinstance(info, ResponseError):
                raise info
            self.clustered = check_server(info, self.server)
        except BaseException:
            await _disconnect(connection)
            raise


async def _exchange(connection: AbstractConnection, commands: Sequence[Words]) -> Answers:
    answers: Answers = []
    try:
        # The annotation of ``pack_command`` allows only one word.
        packed = [pack_command(tuple(words)) for words in commands]  # type: ignore[arg-type]
        await connection.send_packed_command(packed)
        for _ in commands:
            try:
                answers.append(await connection.read_response())
            except ResponseError as error:
                answers.append(_classed(error))
    except BaseException:  # a late answer may still arrive, and the next call must not take it for its own answer
        await _disconnect(connection)
        raise
    return answers


def _classed(error: ResponseError) -> ResponseError:
    """Return the error as the more specific class that some versions of the package redis create only in their cluster
    client."""
    word, _, rest = str(error).partition(" ")
    known = {"MOVED": MovedError, "ASK": AskError, "TRYAGAIN": TryAgainError}.get(word)
    return error if known is None else known(rest)


async def _disconnect(connection: AbstractConnection) -> None:
    with suppress(RedisError, OSError):  # the connection is lost in any case
        await connection.disconnect(nowait=True)


def check_server(info: bytes, server: Server) -> bool:
    """Return True if a server's answer to INFO shows that the server is part of a cluster. Raises CarrierRefusedError
    if the server is unsuitable."""
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
    """Return the exception that the carrier raises for a connection error or an error reply from the server."""
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
