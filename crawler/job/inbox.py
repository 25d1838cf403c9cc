"""The entrance to a running job: ``DIR/inbox``, for URLs and commands.

A program that has URLs for a job writes them to a file there; they are durable when ``deposit`` returns. The crawl
checks for files every second. It admits the URLs of a file, makes that durable, answers, and only then removes the
file. If the crawl dies in between, it reads the URLs again, and the seen-set ignores those already admitted. The two
sides share only a file system, so the crawl may be running or may start later.

    NAME.urls     an envelope, {"urls": [text...], "seed": bool, "answer": bool}, and "priority" if a class is given;
                  finished URLs to be requeued are in "again": [[text, depth, via, visits, reach, last]...];
                  with a "pattern", pending URLs that match it are moved to the class
    NAME.answer   an envelope, {"admitted", "known", "off_scope": counts, "rejected": [[text, reason]...]}
    NAME.command  an envelope, {"pid": int, "do": WORD, "host": text or null}; its answer is {"error", "status"}
    aside/        all other files

A command is only for the process that is running: when that process ends, its unread commands expire, so that an old
command does not stop a later crawl. So commands are not synced.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from msgspec import Meta, Struct
from msgspec.structs import asdict

from crawler.base.disk import PASSING, Disk, failpoint, make_private_directory, replace_file
from crawler.base.settings.parts import CLASSES
from crawler.job.checkpoint.envelope import EnvelopeError, content_of, encode_envelope, read_envelope
from crawler.job.output.finished import Past
from crawler.url.scope.patterns import Pattern

INBOX = "inbox"
MAGIC = "crawler-inbox"
ANSWER_MAGIC = "crawler-answer"
COMMAND_MAGIC = "crawler-command"
COMMAND_ANSWER_MAGIC = "crawler-command-answer"
VERSION = 1
MOST_URLS = 10_000  # maximum number of URLs per file
KEPT = 600.0  # seconds after which an unread answer is removed
_ASIDE = "aside"
_URLS = ".urls"
_COMMAND = ".command"
_ANSWER = ".answer"
_PART = ".part"
_NUMBERS = itertools.count(1)  # numbers the files that this process creates
_NAME = re.compile(r"[0-9]{20}-[0-9]+-[0-9]+")


class UrlBatch(Struct, frozen=True):
    """The content of a file. ``seed``: the URLs widen the scope; ``answer``: a process waits for an answer.

    ``again``: finished URLs to be requeued. ``priority``: the class of the URLs, which overrides the rules.
    ``pattern``: pending URLs that match it are also moved to the class."""

    name: str
    urls: Annotated[tuple[str, ...], Meta(max_length=MOST_URLS)]
    seed: bool = False
    answer: bool = False
    again: Annotated[tuple[Past, ...], Meta(max_length=MOST_URLS)] = ()
    priority: Annotated[int, Meta(ge=0, lt=CLASSES)] | None = None
    pattern: Pattern | None = None


class Answer(Struct, frozen=True):
    """The result for a set of URLs: the numbers of new, known and out-of-scope ones, the invalid ones with reasons, and
    the number of URLs with a user name or password, which the crawler does not send."""

    admitted: int = 0
    known: int = 0
    off_scope: int = 0
    rejected: tuple[tuple[str, str], ...] = ()
    credentials_dropped: int = 0

    def __add__(self, other: Answer) -> Answer:
        return Answer(
            self.admitted + other.admitted,
            self.known + other.known,
            self.off_scope + other.off_scope,
            self.rejected + other.rejected,
            self.credentials_dropped + other.credentials_dropped,
        )

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "rejected": [{"url": url, "reason": reason} for url, reason in self.rejected]}


class Inbox:
    """The inbox of the job in ``directory``. All methods may raise OSError."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.path = directory / INBOX
        self._directory = directory
        self._disk = disk

    # -- depositing URLs -----------------------------------------------------------------------------------------

    def deposit(self, urls: Sequence[str], *, seed: bool, answer: bool, priority: int | None = None) -> str:
        """Deposit at most ``MOST_URLS`` URLs; durable on return. Returns a name to pass to ``answer``."""
        content: dict[str, Any] = {"urls": list(urls), "seed": seed, "answer": answer}
        return self._leave(content if priority is None else content | {"priority": priority})

    def put_back(self, again: Sequence[Past], *, answer: bool, priority: int | None = None) -> str:
        """Deposit at most ``MOST_URLS`` finished URLs to be visited again, as the first of their class if one is given.

        Durable on return. Returns a name to pass to ``answer``: ``admitted`` counts the URLs that were queued,
        ``known`` those that were pending."""
        content: dict[str, Any] = {"urls": [], "seed": False, "answer": answer, "again": [list(past) for past in again]}
        return self._leave(content if priority is None else content | {"priority": priority})

    def change_class(self, pattern: str, priority: int, *, answer: bool) -> str:
        """Request that pending URLs that match the pattern be moved to the class; durable on return. Returns a name to
        pass to ``answer``, where ``admitted`` counts the URLs moved."""
        return self._leave({"urls": [], "seed": False, "answer": answer, "pattern": pattern, "priority": priority})

    def _leave(self, content: Mapping[str, Any]) -> str:
        make_private_directory(self.path, exist_ok=True)
        self._disk.sync_directory(self._directory)
        name = self._next_name()
        path = self.path / (name + _URLS)
        try:
            replace_file(self._disk, path, encode_envelope(MAGIC, VERSION, dict(content)), "inbox.written")
        except OSError:
            # A partial file must neither be found nor take up space on a full disk.
            for left in (path, path.with_name(path.name + _PART)):
                with contextlib.suppress(OSError):
                    left.unlink()
            raise
        return name

    def answer(self, name: str) -> Answer | None:
        """Read and remove the answer; None if there is none yet."""
        path = self.path / (name + _ANSWER)
        try:
            answer = content_of(read_envelope(path, ANSWER_MAGIC, VERSION, path.name), Answer, path.name)
        except EnvelopeError as error:
            raise OSError(f"{path}: {error}") from error
        except FileNotFoundError:
            return None
        path.unlink(missing_ok=True)
        return answer

    def command(self, content: Mapping[str, Any]) -> str:
        """Deposit a command. Returns a name to pass to ``command_answer``."""
        make_private_directory(self.path, exist_ok=True)
        name = self._next_name()
        _put(self.path / (name + _COMMAND), encode_envelope(COMMAND_MAGIC, VERSION, dict(content)))
        return name

    def command_answer(self, name: str) -> dict[str, Any] | None:
        """Return the result of a command; None if there is none yet. May also raise EnvelopeError."""
        path = self.path / (name + _ANSWER)
        try:
            return read_envelope(path, COMMAND_ANSWER_MAGIC, VERSION, path.name)
        except FileNotFoundError:
            return None

    def take_back(self, name: str) -> None:
        """Remove a command and its answer, because the caller no longer waits."""
        for suffix in (_COMMAND, _ANSWER):
            (self.path / (name + suffix)).unlink(missing_ok=True)

    def _next_name(self) -> str:
        """Return a name that sorts in the order of creation."""
        return f"{time.time_ns():020d}-{os.getpid()}-{next(_NUMBERS)}"

    # -- the crawl ---------------------------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """Return the names of files with URLs, oldest first."""
        return self._named(_URLS)

    def read(self, name: str) -> UrlBatch:
        """Read a file of URLs. Raises EnvelopeError if it is invalid."""
        path = self.path / (name + _URLS)
        content = {**read_envelope(path, MAGIC, VERSION, path.name), "name": name}
        found = content_of(content, UrlBatch, path.name, lambda _, text: Pattern(text))
        if found.pattern is not None and found.priority is None:
            raise EnvelopeError(f"{path.name}: a pattern needs a class")
        return found

    def close_batch(self, url_batch: UrlBatch, answer: Answer) -> None:
        """Answer a file whose URLs were durably admitted, if a process waits for the answer, and remove the file."""
        failpoint("inbox.admitted")
        if url_batch.answer:
            content = asdict(answer)
            if not answer.credentials_dropped:
                del content["credentials_dropped"]
            try:
                replace_file(
                    self._disk, self.path / (url_batch.name + _ANSWER), encode_envelope(ANSWER_MAGIC, VERSION, content)
                )
            except OSError as error:
                if error.errno not in PASSING:
                    self._disk.unlink(self.path / (url_batch.name + _URLS))  # the file can never be answered
                raise
        failpoint("inbox.answered")
        self._disk.unlink(self.path / (url_batch.name + _URLS))

    def take_command(self, pid: int) -> tuple[str, dict[str, Any]] | None:
        """Remove and return the oldest command for the process ``pid``, with its name; None if there is none.

        Also removes invalid files, and commands for other processes, which have ended."""
        for name in self._named(_COMMAND):
            path = self.path / (name + _COMMAND)
            try:
                content = read_envelope(path, COMMAND_MAGIC, VERSION, path.name)
            except FileNotFoundError:
                continue  # the process that wrote it has just ended and removed it
            except EnvelopeError:
                content = {}
            path.unlink(missing_ok=True)
            if content.get("pid") == pid:
                return name, content
        return None

    def answer_command(self, name: str, content: Mapping[str, Any]) -> None:
        """Write the result of a command."""
        _put(self.path / (name + _ANSWER), encode_envelope(COMMAND_ANSWER_MAGIC, VERSION, dict(content)))

    def set_aside(self, name: str) -> Path:
        """Move a damaged or foreign file, given by its name in the inbox, to ``aside``. Returns its new path."""
        aside = self.path / _ASIDE
        make_private_directory(aside, exist_ok=True)
        others = (aside / f"{name}.{number}" for number in itertools.count(1))
        target = next(path for path in itertools.chain([aside / name], others) if not path.exists())
        self._disk.move(self.path / name, target)
        self._disk.sync_directory(aside)
        return target

    def foreign(self, now: float) -> list[str]:
        """Return the names of files that this program did not write. Also removes answers and unfinished files that are
        older than ``KEPT`` seconds at ``now`` (seconds since 1970)."""
        strange = []
        for path in self._entries():
            if not _is_ours(path.name):
                strange.append(path.name)
            elif not path.name.endswith(_URLS) and now - path.stat().st_mtime > KEPT:
                path.unlink(missing_ok=True)
        return strange

    def _named(self, suffix: str) -> list[str]:
        names = (path.name for path in self._entries())
        return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix) and _is_ours(name))

    def _entries(self) -> list[Path]:
        try:
            return [path for path in self.path.iterdir() if path.name != _ASIDE]
        except FileNotFoundError:
            return []


def is_class(value: object) -> TypeGuard[int]:
    """True if the value is a priority class."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < CLASSES


def _put(path: Path, data: bytes) -> None:
    """Write a file atomically, without a sync."""
    part = path.with_name(path.name + _PART)
    part.write_bytes(data)
    part.replace(path)


def _is_ours(name: str) -> bool:
    stem, dot, suffix = name.removesuffix(_PART).partition(".")
    return dot + suffix in (_URLS, _COMMAND, _ANSWER) and _NAME.fullmatch(stem) is not None
