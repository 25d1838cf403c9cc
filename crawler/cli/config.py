"""``crawler config``: prints the commented defaults, and the files for systemd, Prometheus and Grafana."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from crawler.base.settings.load import nearest
from crawler.cli.exit_codes import Exit, UsageError

DEFAULT = "default.toml"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print the default configuration with a comment on each setting, or another file shipped with the program: "
        "the systemd unit, the Prometheus alerts, the Grafana dashboard, the files for containers."
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"a name from --list ({DEFAULT})")
    parser.add_argument("--list", action="store_true", help="list the names of the files")
    parser.add_argument("--write", type=Path, metavar="DIR", help="copy the files into DIR without overwriting any")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    name: str | None = arguments.name
    if arguments.list and (name is not None or arguments.write is not None):
        raise UsageError("--list takes neither NAME nor --write")
    shipped = dict(_files(files("crawler") / "config_files"))
    if name is not None and name not in shipped:
        raise UsageError(f"no file is called {name!r}{nearest(name, shipped)}; `crawler config --list` lists the names")
    if arguments.list:
        print("\n".join(shipped))
    elif arguments.write is not None:
        _write({name: shipped[name]} if name is not None else shipped, arguments.write)
    else:
        sys.stdout.write(shipped[name or DEFAULT].read_text("utf-8"))
    return Exit.OK


def _files(folder: Traversable, within: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files below ``folder``, each after its name, such as ``systemd/crawler@.service``. The settings come
    first."""
    for entry in sorted(folder.iterdir(), key=lambda entry: (entry.is_dir(), entry.name)):
        if entry.is_dir():
            yield from _files(entry, f"{within}{entry.name}/")
        else:
            yield within + entry.name, entry


def _write(chosen: dict[str, Traversable], folder: Path) -> None:
    """Copy all files into ``folder``. Raises UsageError, and copies none, if one of them already exists there."""
    for name in chosen:
        if (folder / name).exists():
            raise UsageError(f"{folder / name} already exists: choose another directory, or remove this file first")
    for name, source in chosen.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())
        print(path)
