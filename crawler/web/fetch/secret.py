"""Secrets by reference: a setting names the location of a secret, so that no job file and no message contains it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from crawler.base.disk import read_regular
from crawler.base.settings.leaving import secret_reference
from crawler.base.settings.load import SettingsError


class SecretText(str):
    """The value of a header that is sent and never shown or stored."""

    def __repr__(self) -> str:
        return "..."


def with_own(headers: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Add secret headers to a request's headers, replacing those of the same name."""
    if not own:
        return headers
    names = {name.lower() for name in own}
    kept = {name: value for name, value in headers.items() if name.lower() not in names}
    return {**kept, **{name: SecretText(value) for name, value in own.items()}}


def read_secret(reference: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the text that ``env:NAME`` or ``file:PATH`` refers to, without its final line feed. ``name`` is the name
    of the setting. Raises SettingsError, which does not contain the secret."""
    found = secret_reference(reference)
    if found is None:
        raise SettingsError(f"{name} must be env:NAME or file:PATH")
    kind, place = found
    if kind == "env":
        if place not in environ:
            raise SettingsError(f"{name}: the environment has no variable {place}")
        secret = environ[place]
    else:
        try:
            secret = read_regular(Path(place)).decode("utf-8").rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SettingsError(f"{name}: cannot read {place}: {reason}") from error
    if not secret or not secret.isprintable():
        raise SettingsError(f"{name}: the value of {reference} is not one line of text")
    return secret


def read_login(reference: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the ``user:password`` that a reference leads to. Raises SettingsError, which does not contain the
    login."""
    login = read_secret(reference, name, environ)
    if ":" not in login:
        raise SettingsError(f"{name}: the value of {reference} is not a login; write it as user:password")
    return login
