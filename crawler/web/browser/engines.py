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

from crawler.base.settings.load import SettingsError
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
    sys.exit("it needs user and network namespaces, which this machine does not allow")
"""
BEHIND = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")
VERSION_WAIT = 60.0  # seconds; the first start of a large program reads it from disk


class Engine(Struct, frozen=True):
    """A browser. ``label`` is its name and version."""

    name: str
    path: str
    label: str


def find_engine(settings: BrowserSettings) -> Engine:
    """Return the engine chosen by the settings. Raises SettingsError if it is missing or not allowed to run."""
    if sys.platform != "linux":
        raise SettingsError("pages are rendered only on Linux, where the browser can be confined: omit --browser")
    if os.geteuid() == 0 and not settings.no_sandbox:
        raise SettingsError(
            "browsers have no sandbox as root: use another user, or browser.no_sandbox = true ([browser] in --config "
            "FILE), only in a container that protects the machine"
        )
    if settings.engine == LIGHTPANDA:
        return _lightpanda()
    wanted = COMMANDS if settings.engine == "auto" else {settings.engine: COMMANDS[settings.engine]}
    for name, commands in wanted.items():
        for command in commands:
            path = shutil.which(command)
            if path is not None:
                path = _program(path)
                return Engine(name, path, _label(name, path, "--version"))
    raise SettingsError(
        f"no browser ({', '.join(wanted)}) is on PATH: install one, for example with "
        f"`apt install {'chromium' if settings.engine == 'chromium' else 'chromium-headless-shell'}`"
    )


def installed() -> Iterator[Engine]:
    """Yield the engines installed on this machine."""
    for name in (*COMMANDS, LIGHTPANDA):
        with contextlib.suppress(SettingsError):
            yield find_engine(BrowserSettings(engine=name, no_sandbox=True))


def _lightpanda() -> Engine:
    package = importlib.util.find_spec(LIGHTPANDA)
    inside = (Path(folder, LIGHTPANDA) for folder in (package and package.submodule_search_locations) or ())
    path = next((str(each) for each in inside if os.access(each, os.X_OK)), None) or shutil.which(LIGHTPANDA)
    if path is None:
        raise SettingsError("no browser (lightpanda) is installed: `pip install lightpanda`")
    launch = f"{NO_NETWORK}os.execv(sys.argv[1], sys.argv[1:])"
    return Engine(LIGHTPANDA, path, _label(LIGHTPANDA, sys.executable, "-ISc", launch, path, "version"))


def _program(path: str) -> str:
    """Return the program that the shell script at ``path`` starts; if there is none, the file at ``path`` itself."""
    real = Path(path).resolve()
    with real.open("rb") as file:
        if file.read(2) != b"#!":
            return str(real)
    names = {Path(path).name, real.name, "chrome"}
    inside = (Path(folder, name) for folder in BEHIND for name in names)
    return next((str(each) for each in inside if os.access(each, os.X_OK)), path)


def _label(name: str, *words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=VERSION_WAIT, check=True, env={"PATH": ""})
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "stderr", None) or error
        raise SettingsError(f"{words[-2]} does not start: {str(why).strip()}") from error
    return f"{name} {next((word for word in done.stdout.split() if word[:1].isdigit()), 'unknown')}"
