"""Passes commands to a running crawl from other processes that can write to its directory, such as ``crawler dashboard
DIR``. The job's inbox holds the commands and their answers. The process that leaves a command waits for the answer and
removes it."""

from __future__ import annotations

import asyncio
import os

from msgspec import ValidationError, convert

from crawler.base.disk import Expendable
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.directory import JobError
from crawler.job.identity import check_fetcher
from crawler.job.inbox import INBOX, Inbox
from crawler.service.commands import (
    SNAPSHOT,
    WORDS,
    Command,
    Perform,
    Refusal,
    Refused,
    Reloaded,
    Result,
    parse_command,
)

INTERVAL = 0.5  # seconds between polls for commands
WAIT = 60.0  # seconds to wait for an answer: a checkpoint may take long
_POLL = 0.1


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
    dropped; only the OSErrors of the commands themselves are raised."""
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
