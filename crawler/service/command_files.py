"""Commands for a running crawl from other processes that may write to its directory, such as ``crawler dashboard DIR``.
The job's inbox holds them and their answers; the process that leaves a command waits for the answer and removes it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable

from crawler.checkpoint import EnvelopeError
from crawler.job.inbox import INBOX, Inbox
from crawler.service.commands import Command, Refusal, Refused, parse_command

log = logging.getLogger("crawler")

INTERVAL = 0.5  # seconds between two looks for commands
WAIT = 60.0  # seconds that an answer is waited for: a checkpoint takes its time
_POLL = 0.1


async def give_command(inbox: Inbox, pid: int, command: Command) -> Refused | None:
    """Leave a command for the process, and wait for what comes of it; None when it is done. Raises OSError."""
    name = inbox.command({"pid": pid, "do": command.word, "host": command.host})
    now = asyncio.get_running_loop().time
    deadline = now() + WAIT
    try:
        while now() < deadline:
            await asyncio.sleep(_POLL)
            answer = inbox.command_answer(name)
            if answer is not None:
                error = answer["error"]
                return None if error is None else Refused(Refusal.of_status(answer["status"]), str(error))
    except (EnvelopeError, KeyError) as error:
        return Refused(Refusal.NO_ANSWER, f"the crawl's answer cannot be read: {error}")
    finally:
        inbox.take_back(name)
    return Refused(Refusal.NO_ANSWER, "the crawl has not answered")


async def obey(inbox: Inbox, perform: Callable[[Command], Awaitable[Refused | None]]) -> None:
    """Do what commands say, one after the other, until cancelled."""
    while True:
        try:
            while (taken := inbox.take_command(os.getpid())) is not None:
                name, content = taken
                command = parse_command(content)
                refused = command if isinstance(command, Refused) else await perform(command)
                status, text = (200, None) if refused is None else (refused.why.status, refused.text)
                inbox.answer_command(name, {"error": text, "status": status})
        except OSError as error:
            log.warning("%s: %s", INBOX, error.strerror)  # such as a full disk: the command is not answered
        await asyncio.sleep(INTERVAL)
