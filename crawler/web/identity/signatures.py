"""Makes and parses signature headers (RFC 9421).

The signed text, called the *signature base*, has a line for each covered component and one for the parameters:

    "@authority": example.com
    "signature-agent";key="sig1": "https://bot.example"
    "@signature-params": ("@authority" "signature-agent";key="sig1");created=1; ... ;tag="web-bot-auth"

The names come from draft-ietf-webbotauth-httpsig-protocol-00, for requests, and from
draft-meunier-webbotauth-httpsig-directory-00, for the directory of keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crawler.base import entropy
from crawler.web.identity.keys import Key, encoded

EXPIRES = 60  # seconds; enough, because a request is signed in the step that sends it
_NONCE = 24  # random bytes of a nonce
OF_REQUESTS = "web-bot-auth"
OF_DIRECTORY = "http-message-signatures-directory"
_LABEL = "sig1"
_AGENT = f'"signature-agent";key="{_LABEL}"'
_REQUEST_AUTHORITY = '"@authority";req'  # the authority of the request, in the signature of an answer
_MEMBER = re.compile(r'(?<![a-z0-9_.*-])([a-z*][a-z0-9_.*-]*+)=((?:[^",\\]|"(?:[^"\\]|\\.)*+")*+)')
_PARAMETER = re.compile(r';([a-z*][a-z0-9_.*-]*)=(?:"([ !#-\[\]-~]*)"|([0-9]{1,15}))')


def request_headers(key: Key, agent: str, authority: str, now: float) -> dict[str, str]:
    """Sign a request to ``authority`` (host and port, as in its Host header) in the name of ``agent``."""
    parameters = f'("@authority" {_AGENT}){_parameters(key, now, int(now) + EXPIRES, OF_REQUESTS)}'
    signature = key.sign(f'"@authority": {authority}\n{_AGENT}: "{agent}"\n{_last(parameters)}')
    return {
        "Signature-Agent": f'{_LABEL}="{agent}"',
        "Signature-Input": f"{_LABEL}={parameters}",
        "Signature": f"{_LABEL}=:{signature}:",
    }


def directory_headers(keys: Sequence[Key], authority: str, now: float) -> dict[str, str]:
    """Sign the directory that ``authority`` serves, once with each key, for as long as the key is valid."""
    inputs, signatures = list[str](), list[str]()
    for number, key in enumerate(keys):
        parameters = f"({_REQUEST_AUTHORITY}){_parameters(key, now, key.exp, OF_DIRECTORY)}"
        inputs.append(f"binding{number}={parameters}")
        signatures.append(f"binding{number}=:{key.sign(_directory_base(authority, parameters))}:")
    return {"Signature-Input": ", ".join(inputs), "Signature": ", ".join(signatures)}


def _parameters(key: Key, created: float, expires: int, tag: str) -> str:
    when, nonce = f";created={int(created)};expires={expires}", encoded(entropy.random_bytes(_NONCE))
    return f'{when};keyid="{key.kid}";alg="ed25519";nonce="{nonce}";tag="{tag}"'


def _last(parameters: str) -> str:
    return f'"@signature-params": {parameters}'


def _directory_base(authority: str, parameters: str) -> str:
    return f"{_REQUEST_AUTHORITY}: {authority}\n{_last(parameters)}"


def directory_signatures(inputs: str, signatures: str, authority: str, now: float) -> dict[str, tuple[str, str]]:
    """Parse the signatures of a directory that ``authority`` served. Returns the signature base and the value in Base64
    by key ID, without signatures that have expired or differ from ours in what they cover or in their tag."""
    values, found = dict(_MEMBER.findall(signatures)), dict[str, tuple[str, str]]()
    for label, member in _MEMBER.findall(inputs):
        given = {name: quoted or plain for name, quoted, plain in _PARAMETER.findall(member)}
        is_ours = member.startswith(f"({_REQUEST_AUTHORITY})") and given.get("tag") == OF_DIRECTORY
        if is_ours and given.get("expires", "").isdigit() and int(given["expires"]) > now:
            found[given.get("keyid", "")] = _directory_base(authority, member), values.get(label, "").strip(":")
    return found
