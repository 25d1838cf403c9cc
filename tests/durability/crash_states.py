"""What a power loss may leave of a directory, at each step of a program that renames whole directories in it.

``RecordingDisk`` is the real disk. Before each call it looks at the whole directory, so that it also sees what was
written past it, by RocksDB and by ``shutil``. From one recording any number of states is made: after each call, with
what was not synced lost, kept, or lost in part.

The file system of the model promises less than the usual ones. A rename is atomic, and two changes of the same name
keep their order; changes of other names do not. A file that was not synced may be empty or cut.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from crawler.base.disk.files import RealDisk, RealFile

Name = tuple[int, str]  # of an entry: the number of its directory, and its name in it


@dataclass(frozen=True, slots=True)
class Change:
    """One atomic change: what some names lead to from now on, or None."""

    names: dict[Name, int | None]


@dataclass(frozen=True, slots=True)
class Written:
    """A file has these bytes now."""

    node: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Synced:
    """A file or a directory was synced."""

    node: int


Event = Change | Written | Synced


class Fate(Enum):
    """Of what was not synced."""

    LOST = auto()
    KEPT = auto()
    CHANCE = auto()


@dataclass(slots=True)
class State:
    """A directory as a power loss left it. Number 0 is its root."""

    entries: dict[Name, int] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)

    def write(self, path: Path, node: int = 0) -> None:
        """Make the directory."""
        path.mkdir()
        for (above, name), inner in self.entries.items():
            if above == node:
                if inner in self.files:
                    (path / name).write_bytes(self.files[inner])
                else:
                    self.write(path / name, inner)

    def tree(self, node: int = 0, prefix: str = "") -> dict[str, bytes]:
        """The bytes of each file that has a name, and an empty value for each directory."""
        found: dict[str, bytes] = {}
        for (above, name), inner in self.entries.items():
            if above != node:
                continue
            if inner in self.files:
                found[prefix + name] = self.files[inner]
            else:
                found[f"{prefix}{name}/"] = b""
                found |= self.tree(inner, f"{prefix}{name}/")
        return found


def state_after(events: list[Event], chance: random.Random, fate: Fate) -> State:
    """One of the states that the events may leave."""
    state = State()
    pending: list[Change] = []
    unsynced: dict[int, bytes] = {}
    for event in events:
        if isinstance(event, Written):
            unsynced[event.node] = event.data
            state.files.setdefault(event.node, b"")
        elif isinstance(event, Change):
            pending.append(event)
        elif event.node in state.files:
            state.files[event.node] = unsynced.pop(event.node, state.files[event.node])
        else:
            forced: set[Name] = set()
            for change in reversed(pending):
                if not forced.isdisjoint(change.names) or any(above == event.node for above, _ in change.names):
                    forced |= change.names.keys()
            _apply(state, [change for change in pending if not forced.isdisjoint(change.names)])
            pending = [change for change in pending if forced.isdisjoint(change.names)]
    kept: list[Change] = []
    lost: set[Name] = set()
    for change in pending:
        if fate is Fate.LOST or not lost.isdisjoint(change.names) or (fate is Fate.CHANCE and chance.random() < 0.5):
            lost |= change.names.keys()
        else:
            kept.append(change)
    _apply(state, kept)
    for node, data in unsynced.items():
        if fate is Fate.KEPT or (fate is Fate.CHANCE and chance.random() < 0.5):
            state.files[node] = data if fate is Fate.KEPT else data[: chance.randrange(len(data) + 1)]
    return state


def _apply(state: State, changes: list[Change]) -> None:
    for change in changes:
        for name, node in change.names.items():
            if node is None:
                state.entries.pop(name, None)
            else:
                state.entries[name] = node


class RecordingDisk(RealDisk):
    """``settled``: the name of a directory in ``top`` whose own program makes its changes durable."""

    def __init__(self, top: Path, settled: str) -> None:
        self.events: list[Event] = []
        self.calls: list[tuple[str, int]] = []  # the name of each, and how many events came before it
        self._top = top
        self._settled = top / settled
        self._held: list[int] = []  # so that no number of an inode is used twice
        self._nodes: dict[tuple[int, int], int] = {}
        self._seen: dict[Name, int] = {}
        self._bytes: dict[int, bytes] = {}
        self._look()
        self.events += [Synced(node) for node in range(len(self._nodes))]

    def close(self) -> None:
        for fd in self._held:
            os.close(fd)
        self._held.clear()

    # -- the interface -----------------------------------------------------------------------------------------

    def open(self, path: Path, *, create: bool = False) -> RealFile:
        self._enter("open")
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDWR
        return _File(path, flags, lambda: self._sync(path))

    def replace(self, source: Path, target: Path) -> None:
        self._rename("replace", source, target, super().replace)

    def move(self, source: Path, target: Path) -> None:
        self._rename("move", source, target, super().move)

    def link(self, source: Path, target: Path) -> None:
        self._enter("link")
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        self._enter("unlink")
        super().unlink(path)

    def sync_file(self, path: Path) -> None:
        self._sync(path)

    def sync_many(self, top: Path, files: Collection[Path], directories: Collection[Path]) -> None:
        for file in files:
            self.sync_file(file)
        for directory in directories:
            self.sync_directory(directory)

    def sync_directory(self, path: Path) -> None:
        self._sync(path)

    # -- the record --------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Nothing more is called."""
        self._enter("end")

    def _enter(self, call: str) -> None:
        self._look()
        self.calls.append((call, len(self.events)))

    def _sync(self, path: Path) -> None:
        self._enter("sync")
        self.events.append(Synced(self._node(path)))

    def _rename(self, call: str, source: Path, target: Path, rename: Callable[[Path, Path], None]) -> None:
        self._enter(call)
        node = self._node(source)
        left, entered = (self._node(source.parent), source.name), (self._node(target.parent), target.name)
        rename(source, target)
        self.events.append(Change({left: None, entered: node}))
        del self._seen[left]
        self._seen[entered] = node

    def _node(self, path: Path) -> int:
        found = path.lstat()
        key = found.st_dev, found.st_ino
        if key not in self._nodes:
            self._nodes[key] = len(self._nodes)
            self._held.append(os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        return self._nodes[key]

    def _look(self) -> None:
        """Record what has changed since the last look."""
        now: dict[Name, int] = {}
        settled: set[int] = set()
        news: list[Event] = []
        for path, directories, files in os.walk(self._top):
            above, is_settled = self._node(Path(path)), self._settled in (Path(path), *Path(path).parents)
            for name in (*directories, *files):
                node = now[above, name] = self._node(Path(path, name))
                if is_settled:
                    settled |= {above, node}
            for name in files:
                is_log = name.startswith("LOG")  # RocksDB's, long, and of no meaning
                node, data = now[above, name], b"" if is_log else Path(path, name).read_bytes()
                if self._bytes.get(node) != data:
                    self._bytes[node] = data
                    news.append(Written(node, data))
        for name in sorted(self._seen.keys() | now.keys()):
            if self._seen.get(name) != now.get(name):
                news.append(Change({name: now.get(name)}))
        self._seen = now
        self.events += news
        touched = {event.node for event in news if isinstance(event, Written)}
        touched |= {above for event in news if isinstance(event, Change) for above, _ in event.names}
        self.events += [Synced(node) for node in sorted(touched & settled)]


class _File(RealFile):
    """Says when it is synced."""

    def __init__(self, path: Path, flags: int, synced: Callable[[], None]) -> None:
        super().__init__(path, flags)
        self._synced = synced

    def sync(self) -> None:
        self._synced()
