"""The directory of public keys, which servers fetch to verify signatures, and what goes with it."""

from __future__ import annotations

import html
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from string import Template
from typing import Any

from crawler.base import entropy
from crawler.web.identity.keys import ALWAYS, Key, thumbprint, verifies
from crawler.web.identity.signatures import OF_DIRECTORY, Signed, directory_headers, directory_signatures

PATH = "/.well-known/http-message-signatures-directory"
MEDIA_TYPE = "application/http-message-signatures-directory+json"
_NONCE = 24  # bytes


def directory(keys: list[Key]) -> str:
    """The text of the directory."""
    return json.dumps({"keys": [key.public for key in keys]}, indent=1) + "\n"


def response_headers(keys: list[Key], agent: str, now: float) -> dict[str, str]:
    """The headers that it is served with."""
    nonce = urlsafe_b64encode(entropy.random_bytes(_NONCE)).decode()
    signed = directory_headers(keys, authority_of(agent), now, nonce)
    return {"Content-Type": MEDIA_TYPE, "Cache-Control": "max-age=86400", **signed}


def nginx(headers: Mapping[str, str]) -> str:
    """The part of a configuration of nginx that serves the directory, from the root of its server."""
    added = [f"    add_header {name} '{value}';" for name, value in headers.items() if name != "Content-Type"]
    lines = [f"location = {PATH} {{", "    types { }", f"    default_type {MEDIA_TYPE};", *added, "}"]
    return "\n".join(lines) + "\n"


def page(token: str, contact: str, agent: str) -> str:
    """The page about the crawler."""
    text = files("crawler.web.identity").joinpath("page.html").read_text("utf-8")
    given = {"token": token, "contact": contact, "directory": agent + PATH}
    return Template(text).substitute({name: html.escape(value) for name, value in given.items()})


def authority_of(agent: str) -> str:
    """Host and port of an origin, without the usual port."""
    return agent.partition("://")[2].removesuffix(":443")


def faults(status: int, headers: Mapping[str, str], body: bytes, authority: str, now: float) -> Iterator[str]:
    """What is wrong with a directory as ``authority`` served it, in one line each."""
    if status != 200:
        yield f"status {status} instead of 200"
        return
    stated = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if stated != MEDIA_TYPE:
        yield f"media type {stated or 'missing'} instead of {MEDIA_TYPE}"
    try:
        listed = json.loads(body)["keys"]
        keys = [dict(each) for each in listed]
    except (ValueError, TypeError, KeyError, RecursionError):
        yield 'not JSON with a list of "keys"'
        return
    if not keys:
        yield "it lists no keys"
    inputs, signatures = headers.get("Signature-Input", ""), headers.get("Signature", "")
    signed = list(directory_signatures(inputs, signatures, authority))
    if not signed:
        yield "not signed: a header Signature-Input is missing, or cannot be read"
    for number, jwk in enumerate(keys):
        yield from _faults_of_key(str(jwk.get("kid") or f"number {number + 1}"), jwk, signed, now)


def _faults_of_key(name: str, jwk: Mapping[str, Any], signed: list[Signed], now: float) -> Iterator[str]:
    x, ends = str(jwk.get("x", "")), jwk.get("exp", ALWAYS)
    if "d" in jwk:
        yield f"key {name}: IT IS PRIVATE: make another one, and never publish that file"
    if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
        yield f"key {name}: not an Ed25519 key"
        return
    if jwk.get("kid") != thumbprint(x):
        yield f"key {name}: its kid is not its thumbprint, {thumbprint(x)}"
    if not isinstance(ends, int) or ends <= now:
        yield f"key {name}: expired{_day(ends)}"
    own = [each for each in signed if each.parameters.get("keyid") == thumbprint(x)]
    if signed and not own:
        yield f"key {name}: the directory is not signed with it"
    for each in own:
        if (fault := _fault_of_signature(each, x, now)) is not None:
            yield f"key {name}: {fault}"


def _fault_of_signature(signed: Signed, x: str, now: float) -> str | None:
    tag, expires = signed.parameters.get("tag"), signed.parameters.get("expires", "")
    if tag != OF_DIRECTORY:
        return f"the tag of its signature is {tag or 'missing'} instead of {OF_DIRECTORY}"
    if signed.text is None:
        return 'its signature must cover "@authority";req and nothing else'
    if not expires.isdigit() or int(expires) <= now:
        return f"its signature has expired{_day(int(expires) if expires.isdigit() else None)}"
    if not verifies(x, signed.text, signed.signature):
        return "its signature is wrong: it was made for another host, or with another key"
    return None


def _day(moment: object) -> str:
    """When something was, as far as that can be said."""
    if not isinstance(moment, int) or not 0 <= moment < 2**32:
        return ""
    return f" on {datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
