"""Describes the machine and the versions that a figure was measured with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")


def describe_machine(packages: Iterable[str] = ()) -> list[str]:
    """Return lines for the head of a table: processor, cores, load, memory, Python, whether the compiled module is
    there, and the versions of ``packages``.

    A package that is not installed is left out.
    """
    cores = os.cpu_count() or 1
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    reason = why_not_native()
    lines = [
        f"machine   {_field(_CPUINFO, 'model name') or platform.machine()}, {cores} cores, "
        f"{_memory()}{platform.system()} {platform.release()}",
        f"load      {load} (1, 5, 15 minutes, before the run)",
        f"python    {platform.python_version()} ({platform.python_implementation()})",
        f"native    {'yes' if reason is None else f'no: {reason}'}",
    ]
    versions = [f"{name} {version}" for name in packages if (version := _version(name))]
    return [*lines, f"packages  {', '.join(versions)}"] if versions else lines


def why_not_native() -> str | None:
    """Return why this program runs without its compiled module; None if it has it."""
    try:
        import_module("crawler.base.native")
    except ImportError as error:
        return str(error).removesuffix(f" ({error.path})")
    return None


def describe_commit(root: Path) -> str | None:
    """Return the commit that is checked out in ``root``, with a ``+`` if files differ from it. None outside a checkout,
    and without Git."""
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip() or None


def _memory() -> str:
    text = _field(_MEMINFO, "MemTotal")
    return f"{int(text.split()[0]) / 2**20:.0f} GiB, " if text else ""


def _field(path: Path, name: str) -> str | None:
    """Return the text after the first ``name :`` in a file of /proc; None if there is none, as on other systems."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
