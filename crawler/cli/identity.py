"""``crawler identity``: makes the keys that sign requests, and what a web server shows of them."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from msgspec.structs import replace

from crawler.base.settings.leaving import fault_of_agent, fault_of_origin
from crawler.base.settings.parts import FetchSettings
from crawler.cli.exit_codes import Exit, UsageError
from crawler.url.robots.parse import product_token
from crawler.web.fetch import Failure, Fetcher, Response
from crawler.web.identity.directory import PATH, authority_of, directory, faults, nginx, page, response_headers
from crawler.web.identity.key_file import read_key_file, write_key_file
from crawler.web.identity.keys import Key, check_library, new_key

KEYS = "identity.jwk"
ROOT = "public"  # of a web server, for the directory and the page
_MOST = 2**20  # bytes of a directory


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Make the keys that sign requests, and check what a web server shows of them."
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    new = actions.add_parser("new", help="make a key, or add the next one, and all that a web server must show")
    new.add_argument("dir", type=Path, metavar="DIR", help="directory of the keys; made if it does not exist")
    new.add_argument("--agent", metavar="URL", help="origin of the web server, as in https://bot.example")
    new.add_argument("--contact", metavar="TEXT", help="whom the page about the crawler names")
    new.add_argument("--user-agent", metavar="TEXT", default=FetchSettings().user_agent, help="that of the crawls")
    new.set_defaults(run=_new)

    sign = actions.add_parser("sign", help="sign the directory of keys again, for servers that want recent signatures")
    sign.add_argument("dir", type=Path, metavar="DIR", help="directory of the keys")
    sign.set_defaults(run=_sign)

    check = actions.add_parser("check", help="fetch the directory of keys, and say what is wrong with it")
    check.add_argument("url", metavar="URL", help="origin of the web server, or the address of the directory")
    check.set_defaults(run=_check)


def _new(arguments: argparse.Namespace) -> int:
    path: Path = arguments.dir / KEYS
    now, old, agent = time.time(), list[Key](), arguments.agent
    check_library()
    if path.exists():
        old, stated = read_key_file(path)
        if agent not in (None, stated):
            raise UsageError(f"{path} has the keys of {stated}: make those of {agent} in another directory")
        agent = stated
    if agent is None or fault_of_origin(agent):
        raise UsageError(f"--agent {fault_of_origin(agent or '')}")
    if fault_of_agent(arguments.user_agent):
        raise UsageError(f"--user-agent {fault_of_agent(arguments.user_agent)}")
    about = arguments.dir / ROOT / "index.html"
    if not about.exists() and not arguments.contact:
        raise UsageError("--contact is missing: an address at which the page says that you can be reached")
    valid = [key for key in old if key.ends > now]
    keys = [*valid, new_key(now, valid)]
    arguments.dir.mkdir(parents=True, exist_ok=True)
    write_key_file(path, keys, agent)
    _publish(arguments.dir, keys, agent, now)
    if not about.exists():
        about.write_text(page(product_token(arguments.user_agent), arguments.contact, agent), "utf-8")
    begins = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(keys[-1].begins))
    print(f"{path}: {len(keys)} {'key' if len(keys) == 1 else 'keys'}; the new one signs from {begins}")
    print(f"serve {arguments.dir / ROOT} at {agent} with the headers in {arguments.dir / 'headers.txt'}")
    return Exit.OK


def _sign(arguments: argparse.Namespace) -> int:
    keys, agent = read_key_file(arguments.dir / KEYS)
    if agent is None:
        raise UsageError(f"{arguments.dir / KEYS} does not say whose keys it has: run `crawler identity new`")
    now = time.time()
    _publish(arguments.dir, [key for key in keys if key.ends > now], agent, now)
    return Exit.OK


def _publish(folder: Path, keys: list[Key], agent: str, now: float) -> None:
    """Write the directory of keys and the headers that sign it. Raises OSError."""
    listed, headers = folder / ROOT / PATH[1:], response_headers(keys, agent, now)
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text(directory(keys), "ascii")
    (folder / "headers.txt").write_text("".join(f"{name}: {value}\n" for name, value in headers.items()), "ascii")
    (folder / "nginx.conf").write_text(nginx(headers), "ascii")


def _check(arguments: argparse.Namespace) -> int:
    check_library()
    url = arguments.url if "://" in arguments.url else f"https://{arguments.url}"
    scheme, _, rest = url.partition("://")
    origin = f"{scheme}://{rest.partition('/')[0]}"
    answer = asyncio.run(_fetched(origin + PATH))
    if isinstance(answer, Failure):
        found = [answer.error]
    else:
        headers = {name: ", ".join(answer.values(name)) for name in ("Content-Type", "Signature-Input", "Signature")}
        found = list(faults(answer.status, headers, answer.body or b"", authority_of(origin), time.time()))
    for fault in found:
        print(f"{origin}{PATH}: {fault}")
    if not found:
        print(f"{origin}{PATH}: nothing is wrong")
    return Exit.FAILED if found else Exit.OK


async def _fetched(url: str) -> Response | Failure:
    settings = replace(FetchSettings(), allow_private=True)  # the user has named the server
    async with Fetcher(settings, concurrency=1, per_host=1) as fetcher:
        return await fetcher.fetch(url, accept=lambda _: True, max_body=_MOST)
