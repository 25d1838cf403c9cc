"""The address of a crawl's carrier, as a user writes it, and the login for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from crawler.base.carrier.verbs import CarrierRefusedError
from crawler.base.disk import read_regular
from crawler.base.settings.parts import CRAWL_NAME

USER = "CRAWLER_ENGINE_USER"
PASSWORD = "CRAWLER_ENGINE_PASSWORD"
PASSWORD_FILE = "CRAWLER_ENGINE_PASSWORD_FILE"
FORMS = "unix:PATH, redis://HOST:PORT[,HOST:PORT...] or rediss://HOST:PORT[,HOST:PORT...]"
_PORT = 6379
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")


class Server(NamedTuple):
    """The address of one server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class RedisAddress(NamedTuple):
    """The address of a single server, or of several servers of one cluster."""

    servers: tuple[Server, ...]
    encrypted: bool


class Login(NamedTuple):
    """The credentials for a server. They are never shown."""

    user: str | None
    password: str | None

    def __repr__(self) -> str:
        return "Login(...)"


def parse_engine(text: str) -> Path | RedisAddress:
    """Parse the address of a carrier: a socket on this machine, or one or more servers. Raises CarrierRefusedError."""
    scheme, _, path = text.partition(":")
    if scheme == "unix" and path:
        return Path(path)
    return parse_servers(text, FORMS)


def parse_servers(text: str, forms: str) -> RedisAddress:
    """Parse the servers in an address without a path. Raises CarrierRefusedError.

    ``forms`` describes the valid forms.
    """
    scheme, _, rest = text.partition(":")
    if scheme not in ("redis", "rediss") or not rest.startswith("//"):
        raise _misunderstood(forms)
    if "@" in rest:
        raise CarrierRefusedError(
            f"the address contains a user or a password, which others could read: write {scheme}://HOST:PORT and "
            f"put them into {USER} and {PASSWORD}, or name a file in {PASSWORD_FILE}"
        )
    return RedisAddress(
        tuple(_server(part, forms) for part in rest[2:].removesuffix("/").split(",")), scheme == "rediss"
    )


def check_crawl_name(name: str) -> None:
    """Raise CarrierRefusedError if the name is not valid for a crawl."""
    if not CRAWL_NAME.fullmatch(name):
        raise CarrierRefusedError(
            f"the crawl's name {name!r} is invalid: use 1 to 64 letters, digits, dots, hyphens and underscores; the "
            "first must be a letter or a digit"
        )


def read_login(environ: Mapping[str, str]) -> Login:
    """Read the login from the environment. Raises CarrierRefusedError with a text that does not contain the
    password."""
    user, password, file = (environ.get(name) or None for name in (USER, PASSWORD, PASSWORD_FILE))
    if password is not None and file is not None:
        raise CarrierRefusedError(f"both {PASSWORD} and {PASSWORD_FILE} are set: remove one of them")
    if file is not None:
        try:
            password = read_regular(Path(file)).decode("utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise CarrierRefusedError(f"{PASSWORD_FILE}: cannot read {file}: {reason}") from error
    if password is not None and not (password and password.isprintable()):
        raise CarrierRefusedError(f"{PASSWORD if file is None else file} must contain exactly one line of text")
    if user is not None and password is None:
        raise CarrierRefusedError(f"{USER} is set without a password: set {PASSWORD} or {PASSWORD_FILE} too")
    return Login(user, password)


def _server(part: str, forms: str) -> Server:
    match = _HOST.fullmatch(part)
    port = int(match["port"] or _PORT) if match else 0
    if match is None or not 0 < port < 2**16:
        raise _misunderstood(forms)
    return Server(match["host"].strip("[]"), port)


def _misunderstood(forms: str) -> CarrierRefusedError:
    # The message leaves out the address: any part of a malformed one may be a password.
    return CarrierRefusedError(f"invalid server address: write {forms}")
