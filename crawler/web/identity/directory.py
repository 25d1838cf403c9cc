"""Makes and checks the files that a crawler operator publishes: the signed directory of public keys, and the page about
the crawler. The names come from draft-meunier-webbotauth-httpsig-directory-00."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from msgspec import DecodeError, json
from msgspec.structs import replace

from crawler.web.identity.keys import Key, KeySet, thumbprint, verifies
from crawler.web.identity.signer import parameters_of

PATH = "/.well-known/http-message-signatures-directory"
MEDIA_TYPE = "application/http-message-signatures-directory+json"
_TAG = "http-message-signatures-directory"
_AUTHORITY = '"@authority";req'  # the authority of the request, in the signature of an answer
_MEMBER = re.compile(r'(?<![a-z0-9_.*-])([a-z*][a-z0-9_.*-]*+)=((?:[^",\\]|"(?:[^"\\]|\\.)*+")*+)')
_EXPIRES = re.compile(";expires=([0-9]{1,15})")


def directory(keys: Sequence[Key]) -> bytes:
    """Return the directory of the public halves."""
    return json.encode(KeySet([replace(key, d="") for key in keys])) + b"\n"


def response_headers(keys: Sequence[Key], agent: str, now: float) -> dict[str, str]:
    """Return the headers of the directory, with a signature by each key, which is valid for as long as the key is."""
    inputs, signatures = list[str](), list[str]()
    for number, key in enumerate(keys):
        parameters = f"({_AUTHORITY}){parameters_of(key, now, key.exp, _TAG)}"
        inputs.append(f"binding{number}={parameters}")
        signatures.append(f"binding{number}=:{key.sign(_signature_base(authority_of(agent), parameters))}:")
    signed = {"Signature-Input": ", ".join(inputs), "Signature": ", ".join(signatures)}
    return {"Content-Type": MEDIA_TYPE, "Cache-Control": "max-age=86400", **signed}


def _signature_base(authority: str, parameters: str) -> str:
    return f'{_AUTHORITY}: {authority}\n"@signature-params": {parameters}'


def page(token: str, contact: str, agent: str) -> str:
    """Return the page about the crawler."""
    text = Template(files("crawler.web.identity").joinpath("page.html").read_text("utf-8"))
    return text.substitute(token=escape(token), contact=escape(contact), directory=escape(agent + PATH))


def authority_of(agent: str) -> str:
    """Return the host and port of an origin; the default port is omitted."""
    return agent.partition("://")[2].lower().removesuffix(":443")


def _signatures(inputs: str, signatures: str, authority: str, now: float) -> list[tuple[str, str]]:
    """Parse the signatures of a directory that ``authority`` served. Returns the signature base of each and its value
    in Base64, without signatures that have expired or differ from ours in what they cover or in their tag."""
    values, found = dict(_MEMBER.findall(signatures)), list[tuple[str, str]]()
    for label, member in _MEMBER.findall(inputs):
        expires = _EXPIRES.search(member)
        is_ours = member.startswith(f"({_AUTHORITY})") and f';tag="{_TAG}"' in member
        if is_ours and expires is not None and int(expires[1]) > now:
            found.append((_signature_base(authority, member), values.get(label, "").strip(":")))
    return found


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
    signed = _signatures(inputs, signatures, authority, now)
    for key in keys:
        kid = thumbprint(key.x)
        if key.d:
            yield f"key {key.kid}: IT IS PRIVATE. Make another key, and never publish the file of private keys"
        if key.kid != kid:
            yield f"key {key.kid}: its kid differs from its thumbprint {kid}"
        if key.exp <= now:
            yield f"key {key.kid}: it has expired"
        if not any(f';keyid="{kid}"' in text and verifies(key.x, text, value) for text, value in signed):
            yield f"key {key.kid}: no header has a signature with it that is valid now and for {authority}"
