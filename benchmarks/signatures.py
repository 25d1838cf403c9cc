"""What a signed request costs, and whether an independent verifier accepts each.

    python benchmarks/signatures.py [--requests N]

One process, which is the server too; CPU time. http-message-signatures verifies what the server received.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from msgspec.structs import replace

from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import IdentitySettings
from crawler.web.identity.keys import key_at, key_from
from crawler.web.identity.signer import request_headers
from tests.web.fetch.sites import page, site
from tests.web.identity.keys import AGENT, key_file, received, verifier
from tests.web.identity.test_signed_requests import COVERED, fetcher

TASKS = 8


def microseconds_a_signature(number: int) -> float:
    keys = [key_from(b"1" * 32), key_from(b"2" * 32, 1)]
    began = time.process_time()
    for _ in range(number):
        key = key_at(keys, now := time.time())
        assert key is not None
        request_headers(key, AGENT, "shop.example", now)
    return (time.process_time() - began) / number * 1e6


async def requests(identity: IdentitySettings, number: int) -> tuple[float, list[bytes]]:
    """Microseconds a request, and what the server received."""
    async with site(page(b"<p>hello"), keep_alive=True) as served, fetcher(identity) as network:

        async def ask(task: int) -> None:
            for n in range(number // TASKS):
                await network.fetch(f"{served.url}{task}/{n}?q")

        began = time.process_time()
        await asyncio.gather(*map(ask, range(TASKS)))
        return (time.process_time() - began) / number * 1e6, served.requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    number = parser.parse_args().requests // TASKS * TASKS
    print("\n".join(describe_machine()))
    print(f"{min(microseconds_a_signature(number) for _ in range(3)):.0f} µs a signature")
    with tempfile.TemporaryDirectory() as directory:
        identity = key_file(Path(directory))
        plain, _ = asyncio.run(requests(replace(identity, sign="never"), number))
        signed, heads = asyncio.run(requests(replace(identity, sign="always"), number))
    print(f"{plain:.0f} µs a request with its server, {signed:.0f} µs signed")
    check, accepted = verifier(), 0
    for head in heads:
        accepted += bool(
            check.verify(
                received(head), expect_tag="web-bot-auth", require_components=COVERED, max_age=timedelta(minutes=5)
            )
        )
    print(f"{accepted} of {len(heads)} accepted")


if __name__ == "__main__":
    main()
