"""The carrier on Redis 7 or later, or Valkey: one server, or a cluster.

``docs/internals/format-carrier.md`` describes the keys. All keys of one name share a hash tag, so that one script may
access all of them, and different names can be on different servers. A position is the ID of a stream entry, which Redis
derives from its clock. The IDs of a stream that was lost and starts again are therefore greater than all earlier ones.
If the clock was set back, or a replica lost a stream's last entries, a position may be greater than the last entry. It
then counts as START.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from crawler.base.carrier.memory_carrier import check_values
from crawler.base.carrier.redis_link import Words
from crawler.base.carrier.redis_servers import Command, RedisServers
from crawler.base.carrier.verbs import (
    CRAWL,
    START,
    CarrierRefusedError,
    Entry,
    Order,
    Position,
    StaleEpochError,
)

VERSION = b"1"  # version of the key format
# Seconds between two reads of empty streams. Commands that wait at the server would cost more: they need further
# connections (in a cluster, one for each stream), and each entry would be read on its own.
_POLL = 0.15
_POSITION = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")

# No epoch reaches 2^50 legitimately. A stream that contains the greatest possible ID accepts no further entries.
_APPEND = """
local known = tonumber(redis.call('HGET', KEYS[1], 'epoch:' .. ARGV[1]) or 0) or 0
if known > tonumber(ARGV[2]) and known < 2^50 then return known end
local last = redis.call('HGET', KEYS[1], 'last') or ''
for i = 3, #ARGV do
  last = redis.pcall('XADD', KEYS[2], '*', 'd', ARGV[i])
  if last.err then if last.err:find('exhausted') then redis.call('DEL', KEYS[2]) end return last end
end
redis.call('HSET', KEYS[1], 'epoch:' .. ARGV[1], ARGV[2], 'last', last)
return last
"""
# Claims must work when the memory is full: they need no memory, and without claims no owner would trim streams.
_CLAIM = """#!lua flags=allow-oom
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[2] then return 0 end
local known = tonumber(redis.call('HGET', KEYS[1], 'epoch:' .. ARGV[1]) or 0) or 0
if not (known < 2^50) then known = 0 end
local epoch = string.format('%.0f', math.max(known, tonumber(ARGV[3])) + 1)
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4])
redis.call('HSET', KEYS[1], 'epoch:' .. ARGV[1], epoch, 'holder', ARGV[2])
return tonumber(epoch)
"""
_RENEW = """#!lua flags=allow-oom
local known = redis.call('HMGET', KEYS[1], 'epoch:' .. ARGV[1], 'holder')
if known[1] ~= ARGV[3] or known[2] ~= ARGV[2] then return 0 end
if ARGV[4] == '0' then redis.call('DEL', KEYS[2])
else redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4]) end
return 1
"""
_PUT = """
local fields = {}
for i = 3, #ARGV, 2 do
  local known = redis.call('HGET', KEYS[2], 'order:' .. ARGV[i]) or ''
  local epoch, number = known:match('^(%d+) (%d+)$')
  epoch, number = tonumber(epoch) or 0, tonumber(number) or 0
  local is_newer = epoch > tonumber(ARGV[1]) or epoch == tonumber(ARGV[1]) and number > tonumber(ARGV[2])
  if is_newer and epoch < 2^50 and number < 2^53 then return 0 end
  for _, part in ipairs({ARGV[i], ARGV[i + 1], 'order:' .. ARGV[i], ARGV[1] .. ' ' .. ARGV[2]}) do
    table.insert(fields, part)
  end
end
redis.call('HSET', KEYS[2], unpack(fields))
return 1
"""
_HASHES = {script: hashlib.sha1(script.encode()).hexdigest() for script in (_APPEND, _CLAIM, _RENEW, _PUT)}


class RedisCarrier:
    """A ``Carrier`` for one crawl. It connects on the first call, and again after an error."""

    def __init__(self, servers: RedisServers, crawl: str) -> None:
        self._servers = servers
        self._crawl = crawl

    async def check(self) -> None:
        """Check that this version can use the keys of the crawl, and that the user has the permissions for all verbs.

        Raises CarrierError, and CarrierRefusedError if a check fails. Writes nothing, so that the checks also work on a
        full server.
        """
        key, stream = self._key(CRAWL, "version"), self._key(CRAWL, "stream")  # this stream is never created
        version, *_ = await self._servers.ask(
            [
                Command(key, ("GET", key)),
                Command(stream, ("XREAD", "COUNT", 1, "STREAMS", stream, "0-0")),
                Command(stream, ("XTRIM", stream, "MINID", "0-1")),
            ]
        )
        if version not in (None, VERSION):
            raise CarrierRefusedError(
                f"the crawl {self._crawl!r} in {self._servers.text} was started by another version of this program "
                f"(keys of version {version.decode('ascii', 'replace')[:20]}): run that one, or name another crawl"
            )
        await self.renew(CRAWL, "", 0, 0.0)  # renewing a claim that nobody holds has no effect, but it runs a script

    async def append(self, stream: str, writer: str, epoch: int, entries: Sequence[bytes]) -> Position:
        """See ``Carrier``."""
        answer = await self._script(_APPEND, stream, "stream", (writer, epoch, *entries))
        if isinstance(answer, int):
            raise StaleEpochError(f"{writer} has been replaced: its epoch is {answer}, not {epoch}")
        return _position(answer)

    async def read(self, after: Mapping[str, Position], most: int, wait: float) -> dict[str, list[Entry]]:
        """See ``Carrier``."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        await self._servers.learn()
        found, positions = await self._read_now(after, most)
        while not found and (left := deadline - clock()) > 0:
            await asyncio.sleep(min(_POLL, left))
            await self._servers.learn()
            found = self._entries(await self._servers.ask(self._commands(positions, most)))
        return found

    async def trim(self, stream: str, upto: Position) -> None:
        """See ``Carrier``."""
        match = _POSITION.fullmatch(upto)
        if match is not None:
            key = self._key(stream, "stream")
            await self._one(Command(key, ("XTRIM", key, "MINID", f"{match[1]}-{int(match[2]) + 1}")))

    async def last(self, streams: Sequence[str]) -> list[Position]:
        """See ``Carrier``."""
        return [_position(answer) for answer in await self._servers.ask([self._last(name) for name in streams])]

    async def claim(self, name: str, holder: str, floor: int, seconds: float) -> int | None:
        """See ``Carrier``."""
        return await self._script(_CLAIM, name, "claim", (name, holder, floor, _milliseconds(seconds))) or None

    async def renew(self, name: str, holder: str, epoch: int, seconds: float) -> bool:
        """See ``Carrier``."""
        time = _milliseconds(seconds) if seconds else 0
        return bool(await self._script(_RENEW, name, "claim", (name, holder, epoch, time)))

    async def put(self, name: str, values: Mapping[str, bytes], order: Order | None = None) -> bool:
        """See ``Carrier``."""
        check_values(values)
        if not values:
            return True
        parts = [part for item in values.items() for part in item]
        if order is not None:
            return bool(await self._script(_PUT, name, "values", (*order, *parts)))
        key = self._key(name, "values")
        commands = [Command(key, ("HSET", key, *parts))]
        if name == CRAWL:
            mark = self._key(CRAWL, "version")
            commands.append(Command(mark, ("SET", mark, VERSION, "NX")))  # the server may have lost all keys
        await self._servers.ask(commands)
        return True

    async def get(self, names: Sequence[str], key: str) -> list[bytes | None]:
        """See ``Carrier``."""
        keys = [self._key(name, "values") for name in names]
        return await self._servers.ask([Command(held, ("HGET", held, key)) for held in keys])

    async def close(self) -> None:
        """Close all connections. Calls that wait for answers raise CarrierError; any later call connects again."""
        await self._servers.close()

    async def _read_now(
        self, after: Mapping[str, Position], most: int
    ) -> tuple[dict[str, list[Entry]], dict[str, Position]]:
        """Return the entries available now, and the positions after which they were read; unknown positions become
        START."""
        positions = {name: position if _POSITION.fullmatch(position) else START for name, position in after.items()}
        reads = self._commands(positions, most)
        answers = await self._servers.ask([*reads, *map(self._last, positions)])
        found = self._entries(answers[: len(reads)])
        lasts = map(_position, answers[len(reads) :])
        lost = {name: START for name, last in zip(positions, lasts, strict=True) if _is_after(positions[name], last)}
        if lost:
            answers = await self._servers.ask(self._commands(lost, most))
            found |= self._entries(answers)
        return found, positions | lost

    def _commands(self, positions: Mapping[str, Position], most: int) -> list[Command]:
        """Return one command for each group of keys that can share a command."""
        groups: dict[int, list[str]] = {}
        for name in positions:
            groups.setdefault(self._servers.group_of(self._key(name, "stream")), []).append(name)
        commands = []
        for names in groups.values():
            keys = [self._key(name, "stream") for name in names]
            ids = [positions[name] or "0-0" for name in names]
            commands.append(Command(keys[0], ("XREAD", "COUNT", most, "STREAMS", *keys, *ids)))
        return commands

    def _entries(self, answers: Sequence[Any]) -> dict[str, list[Entry]]:
        prefix = len(self._key("", "stream").partition("}")[0])
        return {
            key.decode().partition("}")[0][prefix:]: [
                Entry(position.decode(), _data(fields)) for position, fields in entries
            ]
            for answer in answers
            for key, entries in answer or ()
        }

    def _last(self, name: str) -> Command:
        key = self._key(name, "state")
        return Command(key, ("HGET", key, "last"))

    def _key(self, name: str, what: str) -> str:
        return f"crawler:{{{self._crawl}:{name}}}:{what}"

    async def _script(self, script: str, name: str, what: str, arguments: Words) -> Any:
        state = self._key(name, "state")
        words = ("EVALSHA", _HASHES[script], 2, state, self._key(name, what), *arguments)
        return await self._one(Command(state, words, script))

    async def _one(self, command: Command) -> Any:
        (answer,) = await self._servers.ask([command])
        return answer


def _position(answer: bytes | None) -> Position:
    """Return the position in an answer; START if the answer is not a position."""
    text = "" if answer is None else answer.decode("ascii", "replace")
    return text if _POSITION.fullmatch(text) else START


def _data(fields: Sequence[bytes]) -> bytes:
    """Return the data of an entry; empty bytes if this program did not write the entry."""
    return fields[1] if len(fields) == 2 else b""


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _is_after(position: Position, last: Position) -> bool:
    """Return True if the position is beyond all entries that the current stream has had."""
    return position != START and (last == START or _numbers(position) > _numbers(last))


def _numbers(position: Position) -> tuple[int, ...]:
    return tuple(map(int, position.split("-")))
