"""Reads and writes the file of private keys: a JSON Web Key Set, with the agent whose directory lists the keys."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from crawler.base.disk import RealDisk, open_regular, replace_file
from crawler.base.settings.load import SettingsError
from crawler.web.identity.keys import Key, check_library, read_keys

_MOST = 2**20  # bytes
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_key_file(path: Path) -> tuple[list[Key], str | None]:
    """Return the keys in a file, and the agent if it names one. Raises SettingsError, whose text quotes nothing from
    the file."""
    try:
        with open_regular(path) as stream:
            mode, text = os.fstat(stream.fileno()).st_mode, stream.read(_MOST)
    except OSError as error:
        raise SettingsError(f"identity.key: cannot read {path}: {error.strerror}") from error
    if mode & _OTHERS:
        raise SettingsError(f"identity.key: other users can read or change {path}; run chmod 600 {path}")
    check_library()
    try:
        keys, agent = read_keys(text)
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError):
        keys, agent = [], None
    if not keys or not isinstance(agent, str | None):
        wanted = "it holds no private Ed25519 keys as JSON Web Keys; create it with `crawler identity new`"
        raise SettingsError(f"identity.key: {path}: {wanted}")
    return keys, agent


def write_key_file(path: Path, keys: Sequence[Key], agent: str) -> None:
    """Write keys to a file that only its owner may read. Raises OSError."""
    text = json.dumps({"agent": agent, "keys": [key.private for key in keys]}, indent=1)
    replace_file(RealDisk(), path, f"{text}\n".encode())
