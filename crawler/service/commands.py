"""The commands for a running crawl: from a dashboard button, from a program, or from a file in its inbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct, to_builtins

from crawler.base.settings.live import Change
from crawler.engine.durability import refusal_text
from crawler.engine.lifecycle import PausedBy, State
from crawler.engine.run import Run, pause_text
from crawler.job.metrics.events import Events, Kind

WORDS = ("pause", "resume", "checkpoint", "stop", "reload")
SNAPSHOT = "snapshot"  # only through the inbox; the requesting process copies and removes the result
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
        """Return the refusal for the status in a running crawl's answer; `NOT_NOW` if the status is unknown."""
        return next((each for each in cls if each.value == status), cls.NOT_NOW)


class Refused(Struct, frozen=True):
    """A refused command, with the reason in one line."""

    why: Refusal
    text: str


class Reloaded(Struct, frozen=True):
    """The configuration was read again: these settings ``changed``, and these differ but need a ``restart``."""

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
