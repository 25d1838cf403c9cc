"""Secrets by reference: a setting says where a secret is, so that no file of a job and no message ever contains it."""

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
    """The headers of a request with others, which replace those of the same name and are secret."""
    if not own:
        return headers
    names = {name.lower() for name in own}
    kept = {name: value for name, value in headers.items() if name.lower() not in names}
    return {**kept, **{name: SecretText(value) for name, value in own.items()}}


def read_secret(reference: str, name: str, environ: Mapping[str, str]) -> str:
    """Return what ``env:NAME`` or ``file:PATH`` refers to, without the line feed at its end. ``name`` is the setting's.
    Raises SettingsError, which does not contain the secret."""
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
            reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
            raise SettingsError(f"{name}: cannot read {place}: {reason}") from error
    if not secret or not secret.isprintable():
        raise SettingsError(f"{name}: what {reference} refers to is not one line of text")
    return secret


def read_login(reference: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the ``user:password`` that a reference leads to. Raises SettingsError, without it."""
    login = read_secret(reference, name, environ)
    if ":" not in login:
        raise SettingsError(f"{name}: what {reference} refers to is not a login: write it as user:password")
    return login
