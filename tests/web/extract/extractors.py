"""Stand-ins for what extracts text: they do what the page says."""

from __future__ import annotations

import os
import signal
import time

from crawler.web.extract.page_text import Extracted, Forms


def obey(page: str, url: str, forms: Forms) -> Extracted:
    """The page in capital letters, unless it says something else."""
    word, _, more = page.partition(" ")
    if word == "raise":
        raise ValueError(more)
    if word == "loop":
        while True:
            pass
    if word == "eat":
        held = [bytearray(2**20)]
        while True:
            held.append(bytearray(2**20))
    if word == "need":
        bytearray(int(more) * 2**20)
    if word == "exit":
        os._exit(3)
    if word == "fault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "once":  # killed by somebody, but only at the first try
        try:
            os.close(os.open(more, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return Extracted("at the second try")
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "hold":  # says that it is there, until it ends
        with open(more, "w", encoding="ascii") as pipe:
            pipe.write("x")
            pipe.flush()
            while True:
                time.sleep(1_000)
    return Extracted(
        f"text: {page.upper()}" if forms & Forms.TEXT else None,
        f"markdown: {page.upper()}" if forms & Forms.MARKDOWN else None,
        f'{{"of":"{url}"}}'.encode() if forms & Forms.STRUCTURED else None,
    )
