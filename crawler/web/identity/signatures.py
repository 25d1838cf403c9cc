"""What is signed, and the headers that carry a signature (RFC 9421).

The text that is signed has a line for each component that the signature covers, and one for its parameters:

    "@authority": example.com
    "signature-agent";key="sig1": "https://bot.example"
    "@signature-params": ("@authority" "signature-agent";key="sig1");created=1; ... ;tag="web-bot-auth"

The names are those of draft-ietf-webbotauth-httpsig-protocol-00, for requests, and of
draft-meunier-webbotauth-httpsig-directory-00, for the directory of keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from crawler.web.identity.keys import Key

EXPIRES = 60  # seconds; a request that was signed is sent at once
OF_REQUESTS = "web-bot-auth"
OF_DIRECTORY = "http-message-signatures-directory"
_LABEL = "sig1"
_AGENT = f'"signature-agent";key="{_LABEL}"'
_REQUEST_AUTHORITY = '"@authority";req'  # of the request that an answer answers
_MEMBER = re.compile(r'([a-z*][a-z0-9_.*-]*)=((?:[^",]|"(?:[^"\\]|\\.)*")*)')
_PARAMETER = re.compile(r';([a-z*][a-z0-9_.*-]*)=(?:"([^"]*)"|([^;]*))')


def request_headers(key: Key, agent: str, authority: str, now: float, nonce: str) -> dict[str, str]:
    """The headers that sign a request to ``authority`` (host and port, as in its Host header) as ``agent``."""
    parameters = f'("@authority" {_AGENT}){_parameters(key, int(now), int(now) + EXPIRES, nonce, OF_REQUESTS)}'
    signature = key.sign(f'"@authority": {authority}\n{_AGENT}: "{agent}"\n{_last(parameters)}')
    return {
        "Signature-Agent": f'{_LABEL}="{agent}"',
        "Signature-Input": f"{_LABEL}={parameters}",
        "Signature": f"{_LABEL}=:{signature}:",
    }


def directory_headers(keys: list[Key], authority: str, now: float, nonce: str) -> dict[str, str]:
    """The headers that sign a directory of keys, with each of them and for as long as it is valid, for whoever asks
    ``authority`` for it."""
    inputs, signatures = list[str](), list[str]()
    for number, key in enumerate(keys):
        parameters = f"({_REQUEST_AUTHORITY}){_parameters(key, int(now), key.ends, nonce, OF_DIRECTORY)}"
        inputs.append(f"binding{number}={parameters}")
        signatures.append(f"binding{number}=:{key.sign(_directory_base(authority, parameters))}:")
    return {"Signature-Input": ", ".join(inputs), "Signature": ", ".join(signatures)}


def _parameters(key: Key, created: int, expires: int, nonce: str, tag: str) -> str:
    when = f";created={created};expires={expires}"
    return f'{when};keyid="{key.kid}";alg="ed25519";nonce="{nonce}";tag="{tag}"'


def _last(parameters: str) -> str:
    return f'"@signature-params": {parameters}'


def _directory_base(authority: str, parameters: str) -> str:
    return f"{_REQUEST_AUTHORITY}: {authority}\n{_last(parameters)}"


class Signed(Struct, frozen=True):
    """One signature of a directory: what says by whom and when, the ``signature`` in Base64, and the ``text`` that it
    signs; None if it covers anything else than a directory's."""

    parameters: dict[str, str]
    signature: str
    text: str | None


def directory_signatures(inputs: str, signatures: str, authority: str) -> Iterator[Signed]:
    """What the headers of a directory say, which was asked of ``authority``."""
    values = dict(_MEMBER.findall(signatures))
    for label, member in _MEMBER.findall(inputs):
        covered, _, rest = member.partition(")")
        text = _directory_base(authority, member) if covered[1:].strip() == _REQUEST_AUTHORITY else None
        parameters = {name: quoted or plain for name, quoted, plain in _PARAMETER.findall(rest)}
        yield Signed(parameters, values.get(label, "").strip().strip(":"), text)


def asks(accept: str) -> bool:
    """Whether the value of ``Accept-Signature`` asks for signatures as ours are. One without a tag may."""
    return any(_parameter(member, "tag") in ("", OF_REQUESTS) for _, member in _MEMBER.findall(accept))


def asked_nonce(accept: str) -> str:
    """The nonce that ``Accept-Signature`` asks for; empty if it names none."""
    found = next((_parameter(member, "nonce") for _, member in _MEMBER.findall(accept)), "")
    return found if found.isascii() and found.isprintable() and "\\" not in found else ""


def _parameter(member: str, name: str) -> str:
    given: dict[str, str] = {key: quoted for key, quoted, _ in _PARAMETER.findall(member.partition(")")[2])}
    return given.get(name, "")
