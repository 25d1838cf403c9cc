"""The commands for a running crawl. They come from a button of the dashboard, from a program, or from a file in the
inbox.

Other processes that can write to the job's directory, such as ``crawler dashboard DIR``, pass commands through the
inbox, which also holds the answers. The process that leaves a command waits for the answer and removes the answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

from crawler.base.disk import Expendable
from crawler.base.settings.live import Change
from crawler.engine.checkpoint_loop import refusal_text
from crawler.engine.lifecycle import PausedBy, State
from crawler.engine.run import Run, pause_text
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.directory import JobError
from crawler.job.identity import check_fetcher
from crawler.job.inbox import INBOX, Inbox
from crawler.job.metrics.events import Events, Kind

INTERVAL = 0.5  # seconds between polls for commands in the inbox
WAIT = 60.0  # seconds to wait for an answer: a checkpoint may take long
_POLL = 0.1
WORDS = ("pause", "resume", "checkpoint", "stop", "reload")
SNAPSHOT = "snapshot"  # accepted only through the inbox; the requesting process copies and removes the snapshot
HOST_WORDS = ("pause-host", "resume-host", "block-host")
_SAID = {
    "pause": "paused from the dashboard",
    "resume": "resumed from the dashboard",
    "checkpoint": "checkpoint requested from the dashboard",
    "stop": "stopped from the dashboard",
    SNAPSHOT: "snapshot made for a backup",
    "pause-host": "paused from the dashboard",
    "resume-host": "resumed from the dashboard",
    "block-host": "blocked from the dashboard: its URLs are excluded",
}


class Refusal(Enum):
    """Why a command is refused. The value is the HTTP status."""

    SENSELESS = 400
    NOT_NOW = 409
    NO_ANSWER = 504

    @property
    def status(self) -> int:
        return self.value

    @classmethod
    def of_status(cls, status: object) -> Refusal:
        """Return the refusal that belongs to the status in a crawl's answer; `NOT_NOW` if the status is unknown."""
        return next((each for each in cls if each.value == status), cls.NOT_NOW)


class Refused(Struct, frozen=True):
    """A refused command, with the reason in one line."""

    why: Refusal
    text: str


class Reloaded(Struct, frozen=True):
    """The configuration was read again: the settings that ``changed``, and those that differ but need a ``restart``."""

    changed: tuple[Change, ...] = ()
    restart: tuple[Change, ...] = ()

    def as_json(self) -> dict[str, Any]:
        figures: dict[str, Any] = to_builtins(self)
        return figures

    @property
    def words(self) -> str:
        """The result in one line."""
        changed = "; ".join(change.words for change in self.changed) or "nothing changed"
        names = ", ".join(change.setting for change in self.restart)
        return changed + (f"; needs a restart: {names}" if names else "")


NO_CONFIGURATION = Refused(Refusal.NOT_NOW, "the crawl has no configuration to read again")
NOT_RUNNING = Refused(Refusal.NOT_NOW, "the crawl is not running")


class Command(Struct, frozen=True):
    """``word`` is one of ``WORDS``, or one of ``HOST_WORDS`` with a ``host`` (host and port)."""

    word: str
    host: str | None = None


Result = Refused | Reloaded | None  # None: the command was carried out
Perform = Callable[[Command], Awaitable[Result]]
Reload = Callable[[], Awaitable[Refused | Reloaded]]


def parse_command(asked: Any, words: Sequence[str] = WORDS) -> Command | Refused:
    """Return the command in ``{"do": WORD, "host": HOST}``. ``words`` are the allowed commands without a host."""
    word = asked.get("do") if isinstance(asked, dict) else None
    if isinstance(word, str) and word in words:
        return Command(word)
    if word not in HOST_WORDS:
        return Refused(Refusal.SENSELESS, f"do must be one of {', '.join(WORDS + HOST_WORDS)}")
    host = asked.get("host")
    if not isinstance(host, str):
        return Refused(Refusal.SENSELESS, "give the host with its port, as in a.test:80")
    return Command(word, host)


def performing(
    run: Callable[[], Run | None], events: Events, clock: Callable[[], float], reload: Reload | None = None
) -> Perform:
    """Return the function that carries out commands and records them as events.

    ``run()`` returns None before the run exists; ``clock()`` returns seconds since 1970; ``reload``, if given, reads
    the configuration again."""

    async def perform(command: Command) -> Result:
        running = run()
        if running is None or running.life.state is not State.RUNNING:
            return NOT_RUNNING
        if command.word == "reload":
            reloaded = NO_CONFIGURATION if reload is None else await reload()
            if isinstance(reloaded, Reloaded):
                events.add(clock(), Kind.CONTROL, f"configuration read again: {reloaded.words}")
            return reloaded
        if command.host is None:
            refused = await _do(running, command.word)
        else:
            refused = _do_to_host(running, command.word, command.host)
        if refused is None:
            events.add(clock(), Kind.CONTROL, _SAID[command.word], command.host)
        return refused

    return perform


async def _do(run: Run, word: str) -> Refused | None:
    match word:
        case "pause":
            run.hold()
        case "resume" if run.job.blocked is not None:
            return Refused(Refusal.NOT_NOW, f"the disk is full: {run.job.blocked}; the crawl resumes automatically")
        case "resume" if run.paused is not None and run.paused.by is PausedBy.OUTAGE:
            return Refused(Refusal.NOT_NOW, f"{run.paused.detail}; the crawl resumes when a host answers again")
        case "resume" if run.paused is not None and run.paused.by in (PausedBy.SCHEDULE, PausedBy.ROUND):
            return Refused(Refusal.NOT_NOW, f"{pause_text(run.paused)} ([schedule])")
        case "resume" if run.paused is not None and run.paused.by is PausedBy.HOURS:
            return Refused(Refusal.NOT_NOW, "all waiting hosts are outside their hours (politeness.hours)")
        case "resume":
            run.go_on()
        case "checkpoint":
            result = await run.keeper.checkpoint_now()
            if result is None:
                return Refused(Refusal.NOT_NOW, "the crawl is ending: its last checkpoint is being written")
            return None if result.refused is None else Refused(Refusal.NOT_NOW, refusal_text(result))
        case "stop":
            run.stop()
        case "snapshot" if run.job.blocked is not None:
            return Refused(Refusal.NOT_NOW, f"nothing can be written now: {run.job.blocked}")
        case "snapshot":
            try:
                await run.job.snapshot()
            except OSError as error:
                return Refused(Refusal.NOT_NOW, f"the crawl cannot make a snapshot: {error}")
    return None


def _do_to_host(run: Run, word: str, host: str) -> Refused | None:
    if run.job.blocked is not None:
        return Refused(Refusal.NOT_NOW, f"the disk is full: {run.job.blocked}")
    overrides = run.job.frontier.overrides
    acts = {"pause-host": overrides.pause, "resume-host": overrides.resume, "block-host": overrides.block}
    met = run.job.change_hosts(lambda batch: acts[word](host, batch))
    run.wake()
    return None if met else Refused(Refusal.NOT_NOW, "no URL of that host was admitted")


# -- through the inbox ---------------------------------------------------------------------------------------------


async def give_command(inbox: Inbox, pid: int, command: Command, wait: float = WAIT) -> Result:
    """Leave a command for the process, wait for the result and return it. Raises OSError."""
    try:
        check_fetcher(inbox.path.parent)
    except JobError as other:
        return Refused(Refusal.NOT_NOW, str(other))
    name = inbox.command({"pid": pid, "do": command.word, "host": command.host})
    now = asyncio.get_running_loop().time
    deadline = now() + wait
    try:
        while now() < deadline:
            await asyncio.sleep(_POLL)
            answer = inbox.command_answer(name)
            if answer is not None:
                error = answer["error"]
                reloaded = answer.get("reloaded")
                if error is None and reloaded is not None:
                    return convert(reloaded, Reloaded)
                return None if error is None else Refused(Refusal.of_status(answer["status"]), str(error))
    except (EnvelopeError, KeyError, ValidationError) as error:
        return Refused(Refusal.NO_ANSWER, f"cannot read the crawl's answer: {error}")
    finally:
        inbox.take_back(name)
    return Refused(Refusal.NO_ANSWER, "the crawl did not answer")


async def obey(inbox: Inbox, perform: Perform) -> None:
    """Carry out the commands in the inbox one by one, until cancelled. A command that cannot be read or answered is
    dropped. Raises only the OSErrors of the commands themselves."""
    files = Expendable(f"{INBOX}: commands")
    while True:
        taken = None
        with files:
            taken = inbox.take_command(os.getpid())
        if taken is None:
            await asyncio.sleep(INTERVAL)
            continue
        name, content = taken
        command = parse_command(content, (*WORDS, SNAPSHOT))
        result = command if isinstance(command, Refused) else await perform(command)
        status, text = (result.why.status, result.text) if isinstance(result, Refused) else (200, None)
        more = {"reloaded": result.as_json()} if isinstance(result, Reloaded) else {}
        with files:
            inbox.answer_command(name, {"error": text, "status": status} | more)
