"""Finds the server of each key, whether single or in a cluster, and routes commands to that server."""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.exceptions import AskError, MovedError, NoScriptError, ResponseError, TryAgainError

from crawler.base.carrier.engine_address import Login, RedisAddress, Server
from crawler.base.carrier.redis_link import PATIENCE, Answers, RedisLink, Word, Words, told
from crawler.base.carrier.verbs import CarrierError, CarrierRefusedError

SLOTS = 16_384
_MOST_TURNS = 10  # maximum number of redirections and retries of a command
_PAUSE = 0.05  # seconds between retries while a slot is being moved
_HURRY = 0.4  # share of the time limit for one server to answer, if another one can be asked


class Command(NamedTuple):
    """A command for the server that has the key. If the command names a script by its hash, ``script`` is the script's
    text."""

    key: str
    words: Sequence[Word]
    script: str | None = None

    def with_script(self) -> Command:
        """Return the command for a server that does not have the script yet."""
        assert self.script is not None
        return Command(self.key, ("EVAL", self.script, *self.words[2:]))


def slot_of(key: str) -> int:
    """Return the slot of a key, or of its hash tag if it has one."""
    tag = key.partition("{")[2].partition("}")
    return crc_hqx((tag[0] if tag[0] and tag[1] else key).encode(), 0) % SLOTS


class RedisServers:
    """Routes commands to the servers that have their keys."""

    def __init__(self, address: RedisAddress, login: Login, patience: float = PATIENCE) -> None:
        """``patience`` is the time to wait for commands that can be answered at once, in seconds."""
        self.patience = patience
        self.text = ",".join(map(str, address.servers))
        self._named = address.servers
        self._asked = dict.fromkeys(address.servers)  # servers to ask for the slots, the one asked last at the end
        self._encrypted = address.encrypted
        self._login = login
        self._only: Server | None = None  # the only server; None in a cluster
        self._slots: dict[int, Server] = {}
        self._links: dict[Server, RedisLink] = {}
        self._learning = asyncio.Lock()

    async def ask(self, commands: Sequence[Command]) -> Answers:
        """Return the answer to each command. Raises CarrierError and CarrierRefusedError, even if only one answer is an
        error; the other commands may nevertheless have been executed."""
        try:
            async with asyncio.timeout(self.patience):
                return await self._ask(dict(enumerate(commands)))
        except TimeoutError as error:
            self.forget()
            raise CarrierError(f"{self.text} did not answer within {self.patience:g} seconds") from error

    async def learn(self) -> None:
        """Find out whether the servers are a cluster, and which server has which slots, unless this is already known.

        Raises CarrierError and CarrierRefusedError.
        """
        if self._only is None and not self._slots:
            await self.ask([])

    def server_of(self, key: str) -> Server:
        """Return the server of a key. Raises CarrierError."""
        server = self._only or self._slots.get(slot_of(key))
        if server is None:
            self.forget()
            raise CarrierError(f"the cluster of {self.text} currently has no server for some of its slots")
        return server

    def group_of(self, key: str) -> int:
        """Return the group of a key. Keys of one group can be in one command."""
        return -1 if self._only is not None else slot_of(key)

    def link_to(self, server: Server) -> RedisLink:
        """Return the connections to a server."""
        link = self._links.get(server)
        if link is None:
            link = self._links[server] = RedisLink(server, self._login, encrypted=self._encrypted)
        return link

    def forget(self) -> None:
        """Forget which server has which slots, because a server does not answer or no longer has its slots."""
        self._slots = {}

    async def close(self) -> None:
        """Close the connections."""
        links, self._links = self._links, {}
        for link in links.values():
            await link.close()

    async def _ask(self, waiting: dict[int, Command]) -> Answers:
        answers: Answers = [None] * len(waiting)
        elsewhere: dict[int, Server] = {}  # one-time redirections
        turns = 0
        while turns < _MOST_TURNS:
            await self._learn()
            sent: dict[Server, list[int]] = {}
            for index, command in waiting.items():
                sent.setdefault(elsewhere.get(index) or self.server_of(command.key), []).append(index)
            said = await self._gather(sent, waiting, elsewhere)
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
            if pause:  # not counted: this lasts as long as the slot's keys are split between two servers
                await asyncio.sleep(_PAUSE)
            else:
                turns += 1
        raise CarrierError(f"the cluster of {self.text} keeps redirecting a command")

    async def _learn(self) -> None:
        async with self._learning:
            if self._only is None and not self._slots:
                await self._ask_for_slots()

    async def _gather(
        self, sent: dict[Server, list[int]], commands: dict[int, Command], elsewhere: dict[int, Server]
    ) -> dict[int, tuple[Any, Server]]:
        """Send the commands to all servers concurrently, and return each answer with the server that gave it."""
        asked: list[tuple[Server, dict[int, int], asyncio.Future[Answers]]] = []
        for server, indexes in sent.items():
            words: list[Words] = []
            places: dict[int, int] = {}
            for index in indexes:
                if index in elsewhere:
                    words.append(("ASKING",))
                places[index] = len(words)
                words.append(commands[index].words)
            asked.append((server, places, self.link_to(server).send(words, self.patience)))
        said: dict[int, tuple[Any, Server]] = {}
        for server, places, answers in asked:
            try:
                found = await answers
            except BaseException:
                self.forget()
                raise
            said |= {index: (found[place], server) for index, place in places.items()}
        return said

    async def _ask_for_slots(self) -> None:
        refusal: Exception | None = None
        for server in list(self._asked):
            # Ask another server first next time, as this one may take longer to answer than callers wait.
            del self._asked[server]
            self._asked[server] = None
            link = self.link_to(server)
            try:
                (answer,) = await link.send([("CLUSTER", "SLOTS")], self.patience * _HURRY)
            except (CarrierError, CarrierRefusedError) as error:
                refusal = refusal or error
                continue
            if not link.clustered:
                if len(self._named) > 1:
                    raise CarrierRefusedError(f"{server} is not part of a cluster: name only this server")
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
            refusal = CarrierError(f"{server} is part of a cluster that has assigned no slots")
        assert refusal is not None
        raise refusal


def _server_at(host: Any, port: int, asked: Server) -> Server:
    """Return a server address; an empty host stands for the host of the server that gave the answer."""
    text = host.decode() if isinstance(host, bytes) else host or ""
    return Server(text or asked.host, port)


def _named_in(answer: AskError, asked: Server) -> Server:
    return _server_at(answer.host, int(answer.port), asked)
