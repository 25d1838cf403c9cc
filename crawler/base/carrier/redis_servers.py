"""Which server of one, or of a cluster, has a key: the way of each command to it."""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import AskError, MovedError, NoScriptError, ResponseError, TryAgainError

from crawler.base.carrier.engine_address import Login, RedisAddress, Server
from crawler.base.carrier.redis_link import PATIENCE, Answers, RedisLink, Word, Words, told
from crawler.base.carrier.verbs import CarrierError, CarrierRefusedError

SLOTS = 16_384
_MOST_TURNS = 10  # that one command may be sent elsewhere, or again
_PAUSE = 0.05  # seconds, while a slot is in between
_HURRY = 0.4  # of our patience: for one server, where another can be asked


class Command(NamedTuple):
    """What is sent to the server that has the key. ``script`` is the text of the one that its words name."""

    key: str
    words: Sequence[Word]
    script: str | None = None

    def with_script(self) -> Command:
        """The same for a server that does not know the script."""
        assert self.script is not None
        return Command(self.key, ("EVAL", self.script, *self.words[2:]))


def slot_of(key: str) -> int:
    """The slot of a key, which is that of its hash tag if it has one."""
    tag = key.partition("{")[2].partition("}")
    return crc_hqx((tag[0] if tag[0] and tag[1] else key).encode(), 0) % SLOTS


class RedisServers:
    """Each server has one connection for what is answered at once, and one for reading."""

    def __init__(self, address: RedisAddress, login: Login, patience: float = PATIENCE) -> None:
        """``patience`` is for the answer to what can be answered at once, in seconds."""
        self.patience = patience
        self.text = ",".join(map(str, address.servers))
        self._named = address.servers
        self._asked = dict.fromkeys(address.servers)  # for what there is, the one that was asked last at the end
        self._make = _maker(address.encrypted, login)
        self._only: Server | None = None  # unless they are a cluster
        self._slots: dict[int, Server] = {}
        self._links: dict[tuple[Server, bool], RedisLink] = {}
        self._learning = asyncio.Lock()

    async def ask(self, commands: Sequence[Command], *, reading: bool = False) -> Answers:
        """The answer to each command. Raises CarrierError and CarrierRefusedError, also for an error that is the answer
        of one: others may have been done then."""
        try:
            async with asyncio.timeout(self.patience):
                return await self._ask(dict(enumerate(commands)), reading)
        except TimeoutError as error:
            self.forget()
            raise CarrierError(f"{self.text} does not answer for {self.patience:g} seconds") from error

    async def learn(self) -> None:
        """Find out whether they are a cluster, and which server has what, if that is not known. Raises CarrierError and
        CarrierRefusedError."""
        if self._only is None and not self._slots:
            await self.ask([])

    def server_of(self, key: str) -> Server:
        """Raises CarrierError."""
        server = self._only or self._slots.get(slot_of(key))
        if server is None:
            self.forget()
            raise CarrierError(f"the cluster of {self.text} has no server for a part of its slots now")
        return server

    def group_of(self, key: str) -> int:
        """Keys of one group can stand in one command."""
        return -1 if self._only is not None else slot_of(key)

    def new_link(self, server: Server, wait: float = 0) -> RedisLink:
        """A connection that the caller closes, for what is answered after ``wait`` seconds."""
        return RedisLink(server, self._make(server), self.patience + wait)

    def forget(self) -> None:
        """Ask again which server has what, because one does not answer, or has not what it had."""
        self._slots = {}

    async def close(self) -> None:
        """Close the connections."""
        links, self._links = self._links, {}
        for link in links.values():
            await link.close()

    async def _ask(self, waiting: dict[int, Command], reading: bool) -> Answers:
        answers: Answers = [None] * len(waiting)
        elsewhere: dict[int, Server] = {}  # by a redirection for this once
        turns = 0
        while turns < _MOST_TURNS:
            await self._learn()
            sent: dict[Server, list[int]] = {}
            for index, command in waiting.items():
                sent.setdefault(elsewhere.get(index) or self.server_of(command.key), []).append(index)
            said = await self._gather(sent, waiting, elsewhere, reading)
            elsewhere, pause = {}, False
            for index, (answer, server) in said.items():
                if not isinstance(answer, ResponseError):
                    answers[index] = answer
                    del waiting[index]
                elif isinstance(answer, NoScriptError) and waiting[index].script is not None:
                    waiting[index] = waiting[index].with_script()
                elif isinstance(answer, MovedError):
                    self._slots[answer.slot_id] = _named_in(answer, server)
                elif isinstance(answer, AskError):
                    elsewhere[index] = _named_in(answer, server)
                elif isinstance(answer, TryAgainError):
                    pause = True
                else:
                    raise told(answer, server)
            if not waiting:
                return answers
            if pause:  # only the caller's patience ends that: it lasts as long as the slot's keys are in two places
                await asyncio.sleep(_PAUSE)
            else:
                turns += 1
        raise CarrierError(f"the cluster of {self.text} sends a command from server to server")

    async def _learn(self) -> None:
        async with self._learning:
            if self._only is None and not self._slots:
                await self._ask_for_slots()

    async def _gather(
        self, sent: dict[Server, list[int]], commands: dict[int, Command], elsewhere: dict[int, Server], reading: bool
    ) -> dict[int, tuple[Any, Server]]:
        """The answers of all servers at once, with the server that gave them."""

        async def one(server: Server, indexes: list[int]) -> dict[int, tuple[Any, Server]]:
            words: list[Words] = []
            places: list[int] = []
            for index in indexes:
                if index in elsewhere:
                    words.append(("ASKING",))
                places.append(len(words))
                words.append(commands[index].words)
            answers = await self._link(server, reading).ask(words)
            return {index: (answers[place], server) for index, place in zip(indexes, places, strict=True)}

        found = await asyncio.gather(*(one(*part) for part in sent.items()), return_exceptions=True)
        said: dict[int, tuple[Any, Server]] = {}
        for part in found:
            if isinstance(part, BaseException):
                self.forget()
                raise part
            said |= part
        return said

    async def _ask_for_slots(self) -> None:
        refusal: Exception | None = None
        for server in list(self._asked):
            # The next time another one is asked first: this one may not answer for longer than anybody waits.
            del self._asked[server]
            self._asked[server] = None
            link = self._link(server, reading=False)
            try:
                async with asyncio.timeout(self.patience * _HURRY):
                    (answer,) = await link.ask([("CLUSTER", "SLOTS")])
            except (CarrierError, CarrierRefusedError, TimeoutError) as error:
                refusal = refusal or told(error, server)
                continue
            if not link.clustered:
                if len(self._named) > 1:
                    raise CarrierRefusedError(f"{server} is not part of a cluster: name no other server beside it")
                self._only = server
                return
            if isinstance(answer, ResponseError):
                raise told(answer, server)
            self._slots = {
                slot: _server_at(first[0], first[1], server)
                for begin, end, first, *_ in answer
                for slot in range(begin, end + 1)
            }
            if self._slots:
                self._asked = dict.fromkeys([*self._named, *self._slots.values()])
                return
            refusal = CarrierError(f"{server} is part of a cluster that has no slots yet")
        assert refusal is not None
        raise refusal

    def _link(self, server: Server, reading: bool) -> RedisLink:
        link = self._links.get((server, reading))
        if link is None:
            link = self._links[server, reading] = self.new_link(server)
        return link


def _server_at(host: Any, port: int, asked: Server) -> Server:
    """An empty host means the one that was asked."""
    text = host.decode() if isinstance(host, bytes) else host or ""
    return Server(text or asked.host, port)


def _named_in(answer: AskError, asked: Server) -> Server:
    return _server_at(answer.host, int(answer.port), asked)


def _maker(encrypted: bool, login: Login) -> Callable[[Server], Callable[[], Connection]]:
    """How to make a connection to a server. Time is the caller's matter."""

    def of(server: Server) -> Callable[[], Connection]:
        def make() -> Connection:
            settings: dict[str, Any] = {
                "host": server.host,
                "port": server.port,
                "username": login.user,
                "password": login.password,
                "protocol": 2,
                "socket_timeout": None,
                "socket_connect_timeout": None,
                "socket_keepalive": True,
            }
            if encrypted:
                return SSLConnection(ssl_cert_reqs="required", ssl_check_hostname=True, **settings)
            return Connection(**settings)

        return make

    return of
