"""``crawler identity``: creates the keys that sign requests, and checks the published ones."""

from __future__ import annotations

import argparse
import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from crawler.base.printable import one_line
from crawler.base.settings.leaving import fault_of_origin
from crawler.base.settings.parts import FetchSettings
from crawler.cli.exit_codes import Exit, UsageError
from crawler.web.fetch import Failure, Fetcher
from crawler.web.identity.directory import PATH, authority_of, directory, faults, page, response_headers
from crawler.web.identity.keys import KeySet, new_key, read_key_file, write_key_file


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Create the keys that sign requests, and check the keys that a web server publishes."
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    new = actions.add_parser("new", help="create the first or next key, and files for the web server")
    new.add_argument("dir", type=Path, metavar="DIR", help="directory of the keys; created if it does not exist")
    new.add_argument("--agent", metavar="URL", help="origin of the web server, as in https://bot.example")
    new.add_argument("--contact", metavar="TEXT", help="how to reach you, for the page about the crawler")
    new.add_argument("--token", metavar="NAME", default="crawler", help="the crawler's name in robots.txt (crawler)")
    new.add_argument("--sign-only", action="store_true", help="sign the directory again; no new key while one is valid")
    new.set_defaults(run=_new)

    check = actions.add_parser("check", help="fetch the published directory, and list its faults")
    check.add_argument("url", metavar="URL", help="origin of the web server, or the URL of the directory")
    check.set_defaults(run=_check)


def _new(arguments: argparse.Namespace) -> int:
    folder, root, now = arguments.dir, arguments.dir / "public", time.time()
    path, about, listed = folder / "identity.jwk", root / "index.html", root / PATH[1:]
    old = read_key_file(path) if path.exists() or arguments.sign_only else KeySet([])
    agent = arguments.agent or old.agent
    if (fault := fault_of_origin(agent)) is not None:
        raise UsageError(f"--agent {fault}")
    if not about.exists() and not arguments.contact:
        raise UsageError("--contact is missing: the page about the crawler shows how to reach you")
    keys = [key for key in old.keys if key.exp > now]
    if not (keys and arguments.sign_only):
        keys.append(new_key(now, keys))
    listed.parent.mkdir(parents=True, exist_ok=True)
    write_key_file(path, KeySet(keys, agent))
    headers = response_headers(keys, agent, now)
    listed.write_bytes(directory(keys))
    (folder / "headers.txt").write_text("".join(f"{name}: {value}\n" for name, value in headers.items()), "ascii")
    if not about.exists():
        about.write_text(page(arguments.token, arguments.contact, agent), "utf-8")
    for key in keys:
        print(f"{key.kid} signs from {datetime.fromtimestamp(key.nbf, UTC)} to {datetime.fromtimestamp(key.exp, UTC)}")
    print(f"serve {root} at {agent}, with the headers in {folder / 'headers.txt'}")
    return Exit.OK


def _check(arguments: argparse.Namespace) -> int:
    url = arguments.url if "://" in arguments.url else f"https://{arguments.url}"
    origin = "/".join(url.split("/")[:3])
    found = asyncio.run(_faults(origin))
    for line in found or ["no faults found"]:
        print(f"{origin}{PATH}: {one_line(line)}")
    return Exit.FAILED if found else Exit.OK


async def _faults(origin: str) -> list[str]:
    settings = replace(FetchSettings(), allow_private=True)  # the user chose the server
    async with Fetcher(settings, concurrency=1, per_host=1) as fetcher:
        answer = await fetcher.fetch(origin + PATH, accept=lambda _: True)
    if isinstance(answer, Failure):
        return [answer.error]
    headers = {name: ", ".join(answer.values(name)) for name in ("Content-Type", "Signature-Input", "Signature")}
    return list(faults(answer.status, headers, answer.body or b"", authority_of(origin), time.time()))
