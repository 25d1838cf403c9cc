"""Makes and checks the files that a crawler operator publishes: the signed directory of public keys, and the page about
the crawler."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from crawler.web.identity.keys import ALWAYS, Key, thumbprint, verifies
from crawler.web.identity.signatures import OF_DIRECTORY, directory_headers, directory_signatures

PATH = "/.well-known/http-message-signatures-directory"
MEDIA_TYPE = "application/http-message-signatures-directory+json"
_Signed = tuple[dict[str, str], str, str]


def directory(keys: list[Key]) -> str:
    """Return the text of the directory."""
    return json.dumps({"keys": [key.public for key in keys]}, indent=1) + "\n"


def response_headers(keys: list[Key], agent: str, now: float) -> dict[str, str]:
    """Return the headers of the directory, with its signatures."""
    usual = {"Content-Type": MEDIA_TYPE, "Cache-Control": "max-age=86400"}
    return usual | directory_headers(keys, authority_of(agent), now)


def nginx(headers: Mapping[str, str]) -> str:
    """Return an nginx snippet for a server block that serves the directory from the root of the server."""
    added = [f"    add_header {name} '{value}';" for name, value in headers.items() if name != "Content-Type"]
    return "\n".join([f"location = {PATH} {{", "    types { }", f"    default_type {MEDIA_TYPE};", *added, "}\n"])


def page(token: str, contact: str, agent: str) -> str:
    """Return the page about the crawler."""
    text = Template(files("crawler.web.identity").joinpath("page.html").read_text("utf-8"))
    return text.substitute(token=escape(token), contact=escape(contact), directory=escape(agent + PATH))


def authority_of(agent: str) -> str:
    """Return the host and port of an origin; the default port is omitted."""
    return agent.partition("://")[2].lower().removesuffix(":443")


def faults(status: int, headers: Mapping[str, str], body: bytes, authority: str, now: float) -> Iterator[str]:
    """Check a directory that ``authority`` served. Yields one line for each fault."""
    if status != 200:
        yield f"status {status} instead of 200"
        return
    stated = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if stated != MEDIA_TYPE:
        yield f"media type {stated or 'missing'} instead of {MEDIA_TYPE}"
    try:
        keys = [dict(each) for each in json.loads(body)["keys"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        yield 'not JSON with a list of "keys"'
        return
    if not keys:
        yield "it lists no keys"
    signed = list(directory_signatures(headers.get("Signature-Input", ""), headers.get("Signature", ""), authority))
    if not signed:
        yield "not signed: the header Signature-Input is missing or invalid"
    for number, jwk in enumerate(keys):
        yield from _faults_of_key(str(jwk.get("kid") or f"number {number + 1}"), jwk, signed, now)


def _faults_of_key(name: str, jwk: Mapping[str, Any], signed: list[_Signed], now: float) -> Iterator[str]:
    x, kid, ends = str(jwk.get("x", "")), thumbprint(str(jwk.get("x", ""))), jwk.get("exp", ALWAYS)
    if "d" in jwk:
        yield f"key {name}: IT IS PRIVATE. Make another key, and never publish the file of private keys"
    if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
        yield f"key {name}: not an Ed25519 key"
        return
    if jwk.get("kid") != kid:
        yield f"key {name}: its kid differs from its thumbprint {kid}"
    if not isinstance(ends, int) or ends <= now:
        yield f"key {name}: it has expired"
    own = [each for each in signed if each[0].get("keyid") == kid]
    if signed and not own:
        yield f"key {name}: the directory is not signed with it"
    for given, signature, text in own:
        if given.get("tag") != OF_DIRECTORY or not text:
            yield f'key {name}: its signature must cover only "@authority";req, and have the tag {OF_DIRECTORY}'
        elif not given.get("expires", "").isdigit() or int(given["expires"]) <= now:
            yield f"key {name}: its signature has expired"
        elif not verifies(x, text, signature):
            yield f"key {name}: its signature is invalid: it was made for another host, or with another key"
