"""Finds the browser: its name, path and version."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from crawler.base.settings.parts import BrowserSettings

# The commands of each engine, in order of preference. Debian's commands are shell scripts that start a program. The
# crawler starts that program directly, because a script would not forward the signal that ends the browser with the
# crawler.
COMMANDS = {
    "headless-shell": ("chromium-headless-shell", "chrome-headless-shell", "headless_shell"),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
}
LIGHTPANDA = "lightpanda"  # also the name of its package; never chosen automatically
# Not all requests of Lightpanda can be paused, so it runs without a network, even without loopback.
NO_NETWORK = """
import ctypes, os, sys
if ctypes.CDLL(None).unshare(0x50000000):  # a user namespace, which needs no privileges, and a network namespace
    sys.exit("no namespace")
"""
_EXEC = "os.execv(sys.argv[1], sys.argv[1:])"
BEHIND = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")
VERSION_WAIT = 60.0  # seconds; the first start of a large program reads it from disk


class Engine(Struct, frozen=True):
    name: str
    path: str
    version: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


class EngineFault(Exception):
    """No engine can be used. The message is one line with the reason and the remedy."""


def find_engine(settings: BrowserSettings) -> Engine:
    """Return the engine chosen by the settings. Raises EngineFault if it is missing or not allowed to run."""
    if sys.platform != "linux":
        raise EngineFault("pages are rendered only on Linux, where the browser can be confined: omit --browser")
    if os.geteuid() == 0 and not settings.no_sandbox:
        raise EngineFault("browsers have no sandbox as root: use another user, or browser.no_sandbox = true")
    if settings.engine == LIGHTPANDA:
        return _lightpanda()
    wanted = COMMANDS if settings.engine == "auto" else {settings.engine: COMMANDS[settings.engine]}
    for name, commands in wanted.items():
        for command in commands:
            path = shutil.which(command)
            if path is not None:
                path = _program(path)
                return Engine(name, path, _version(path, "--version"))
    raise EngineFault(
        f"no browser ({', '.join(wanted)}) is on PATH: install one, for example with "
        f"`apt install {'chromium' if settings.engine == 'chromium' else 'chromium-headless-shell'}`"
    )


def installed() -> Iterator[Engine]:
    """Yield the engines installed on this machine."""
    for name in (*COMMANDS, LIGHTPANDA):
        with contextlib.suppress(EngineFault):
            yield find_engine(BrowserSettings(engine=name, no_sandbox=True))


def _lightpanda() -> Engine:
    package = importlib.util.find_spec(LIGHTPANDA)
    inside = (Path(folder, LIGHTPANDA) for folder in (package and package.submodule_search_locations) or ())
    path = next((str(each) for each in inside if os.access(each, os.X_OK)), None) or shutil.which(LIGHTPANDA)
    if path is None:
        raise EngineFault("no browser (lightpanda) is installed: `pip install lightpanda`")
    try:
        return Engine(LIGHTPANDA, path, _version(sys.executable, "-ISc", f"{NO_NETWORK}{_EXEC}", path, "version"))
    except EngineFault as fault:
        why = "it needs user and network namespaces, which this machine does not allow"
        raise EngineFault(f"{path} does not start: {why}") from fault


def _program(path: str) -> str:
    """Return the program that the shell script at ``path`` starts; if there is none, the file at ``path`` itself."""
    real = Path(path).resolve()
    with real.open("rb") as file:
        if file.read(2) != b"#!":
            return str(real)
    names = {Path(path).name, real.name, "chrome"}
    inside = (Path(folder, name) for folder in BEHIND for name in names)
    return next((str(each) for each in inside if os.access(each, os.X_OK)), path)


def _version(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=VERSION_WAIT, check=True, env={"PATH": ""})
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineFault(f"{words[0]} does not start: {error}") from error
    return next((word for word in done.stdout.split() if word[:1].isdigit()), "unknown")
