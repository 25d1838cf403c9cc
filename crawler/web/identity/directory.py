"""Makes and checks the files that a crawler operator publishes: the signed directory of public keys, and the page about
the crawler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from msgspec import DecodeError, json
from msgspec.structs import replace

from crawler.web.identity.keys import Key, KeySet, thumbprint, verifies
from crawler.web.identity.signatures import directory_headers, directory_signatures

PATH = "/.well-known/http-message-signatures-directory"
MEDIA_TYPE = "application/http-message-signatures-directory+json"


def directory(keys: Sequence[Key]) -> bytes:
    """Return the directory of the public halves."""
    return json.encode({"keys": [replace(key, d="") for key in keys]}) + b"\n"


def response_headers(keys: Sequence[Key], agent: str, now: float) -> dict[str, str]:
    """Return the headers of the directory, with its signatures."""
    usual = {"Content-Type": MEDIA_TYPE, "Cache-Control": "max-age=86400"}
    return usual | directory_headers(keys, authority_of(agent), now)


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
        keys = json.decode(body, type=KeySet).keys
    except (DecodeError, ValueError, RecursionError) as error:
        yield f"not JSON with a list of Ed25519 keys: {error}"
        return
    inputs, signatures = headers.get("Signature-Input", ""), headers.get("Signature", "")
    signed = directory_signatures(inputs, signatures, authority, now)
    for key in keys:
        kid = thumbprint(key.x)
        if key.d:
            yield f"key {key.kid}: IT IS PRIVATE. Make another key, and never publish the file of private keys"
        if key.kid != kid:
            yield f"key {key.kid}: its kid differs from its thumbprint {kid}"
        if key.exp <= now:
            yield f"key {key.kid}: it has expired"
        if not verifies(key.x, *signed.get(kid, ("", ""))):
            yield f"key {key.kid}: no header has a signature with it that is valid now and for {authority}"
