"""Finds the dashboard's token: in the configuration, in a file that the configuration names, or in the job."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from crawler.base.disk import private_opener, read_regular
from crawler.base.settings.parts import DashboardSettings
from crawler.service.dashboard.access import Access, parse_listen
from crawler.url.refusal.special_addresses import is_loopback

TOKEN = "dashboard-token"
# 16 random characters cannot be guessed over a network.
LEAST = 16
_TOKEN = re.compile(rf"[!-~]{{{LEAST},512}}")


def checked_token(text: str, source: str) -> str:
    """Return ``text`` if it is hard to guess and valid in a header. Otherwise raises ValueError with a one-line
    message."""
    if _TOKEN.fullmatch(text) is None:
        raise ValueError(f"{source} must be {LEAST} to 512 printable ASCII characters without spaces")
    return text


def token_from_file(path: Path) -> str:
    """Return the only line of the file. Raises ValueError with one line."""
    try:
        data = read_regular(path, 1_024)
    except OSError as error:
        raise ValueError(f"cannot read the dashboard's token file {path}: {error.strerror}") from error
    return checked_token(data.decode("latin-1").strip(), f"the token in {path}")


def job_token(directory: Path | None) -> str:
    """Return the token stored in the job, so that an open page stays valid when the crawl resumes; a new token if no
    usable one is stored."""
    if directory is not None:
        with contextlib.suppress(ValueError):
            return token_from_file(directory / TOKEN)
    return secrets.token_urlsafe(24)


def keep_token(settings: DashboardSettings, directory: Path, token: str) -> None:
    """Store the job's own token in the job, readable only by its owner, unless it is already there. If the user has
    configured another token, remove the file, because its token would be refused. Raises OSError."""
    path = directory / TOKEN
    if job_token(directory) == token:
        return
    if settings.token or settings.token_file:
        path.unlink(missing_ok=True)
    else:
        part = directory / f"{TOKEN}.part"
        part.unlink(missing_ok=True)
        with open(part, "x", opener=private_opener) as stream:
            stream.write(f"{token}\n")
        os.replace(part, path)


def access_of(settings: DashboardSettings, directory: Path | None) -> Access:
    """Return the access to the crawl in ``directory``, which need not exist yet; if ``directory`` is None, the token is
    not stored.

    Raises ValueError with one line if an address or token is invalid.
    """
    host, _ = parse_listen(settings.listen or "")
    if settings.token is not None and settings.token_file is not None:
        raise ValueError("dashboard.token and dashboard.token_file are both given: keep one")
    given: str | None = None
    if settings.token is not None:
        given = checked_token(settings.token, "dashboard.token")
    elif settings.token_file is not None:
        given = token_from_file(Path(settings.token_file))
    return Access(given or job_token(directory), any_host=given is not None or not is_loopback(host))


def spoken_of(settings: DashboardSettings, access: Access, address: str) -> str:
    """Return the line printed at the start: a link that opens the page, or its address and where to find the token."""
    where = f" (with the token in {settings.token_file})" if settings.token_file else ""
    where = where or (" (with dashboard.token of the configuration)" if settings.token else "")
    # A configured token is omitted, because the output may be kept in a log.
    return f"dashboard: {address if where else access.link(address)}{where}"
