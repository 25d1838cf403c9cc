"""The address of a shared set, as entered by a user, and the secret that its producers share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from crawler.base.carrier.engine_address import RedisAddress, parse_servers
from crawler.base.carrier.verbs import CarrierRefusedError
from crawler.base.disk import read_regular
from crawler.seen.shared.shard_requests import SharedSetRefusedError
from crawler.seen.slices.key_hash import BLAKE2B, KeyHash

SECRET = "CRAWLER_FILTER_SECRET"
SECRET_FILE = "CRAWLER_FILTER_SECRET_FILE"
FORM = "redis://HOST:PORT[,HOST:PORT...]/NAME, or rediss:// with TLS"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SECRET = re.compile(r"[0-9a-fA-F]{32}")


class SetAddress(NamedTuple):
    """The address of a set: its servers and its name."""

    servers: RedisAddress
    name: str

    def __str__(self) -> str:
        scheme = "rediss" if self.servers.encrypted else "redis"
        return f"{scheme}://{','.join(map(str, self.servers.servers))}/{self.name}"


def is_address(text: str) -> bool:
    """Return True if ``text`` is meant as the address of a set, not as a file name."""
    return text.startswith(("redis:", "rediss:"))


def parse_set(text: str) -> SetAddress:
    """Parse the address of a set. Raises SharedSetRefusedError."""
    begin, slash, name = text.rpartition("/")
    if not slash or begin.endswith("/") or not begin.partition("//")[2]:
        raise SharedSetRefusedError(f"the filter {text.rpartition('@')[2]!r} does not name a set: write {FORM}")
    try:
        servers = parse_servers(begin, FORM)
    except CarrierRefusedError as error:
        raise SharedSetRefusedError(str(error)) from error
    if not _NAME.fullmatch(name):
        raise SharedSetRefusedError(
            f"invalid set name {name!r}: use 1 to 100 letters, digits, dots, hyphens and underscores, starting with "
            "a letter or digit"
        )
    return SetAddress(servers, name)


def read_secret(environ: Mapping[str, str]) -> KeyHash | None:
    """Return the hash with the secret from the environment, or None if there is none. Raises SharedSetRefusedError,
    whose message does not contain the secret."""
    text, file = (environ.get(name) or None for name in (SECRET, SECRET_FILE))
    if text is not None and file is not None:
        raise SharedSetRefusedError(f"both {SECRET} and {SECRET_FILE} are set: unset one of them")
    source = SECRET
    if file is not None:
        source = f"{SECRET_FILE} {file}"
        try:
            text = read_regular(Path(file), 1024).decode("utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SharedSetRefusedError(f"{SECRET_FILE}: cannot read {file}: {reason}") from error
    if text is None:
        return None
    if not _SECRET.fullmatch(text):
        raise SharedSetRefusedError(
            f"{source}: a secret must be 32 hexadecimal digits: create one with `openssl rand -hex 16`"
        )
    return KeyHash.from_json({"algorithm": BLAKE2B, "secret": text})


def check_of(hash: KeyHash, text: bytes) -> str:
    """Return a MAC of ``text`` with the secret. It reveals neither the text nor the secret."""
    return blake2b(text, key=hash.secret, digest_size=16, person=b"shared seen-set").hexdigest()
