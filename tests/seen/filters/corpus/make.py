"""Make the filter files that later versions must open: ``python -m tests.seen.filters.corpus.make DIRECTORY``.

They are made by the ``crawler`` that Python finds, which may be an older one than that of this checkout: put its
checkout first on PYTHONPATH and this one behind it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A chain of several slices, sealed ones among them, where the kind is one that grows.
FILTERS = {
    "scalable": ("--capacity", "256", "--fpp", "1e-6"),
    "bloom": ("--capacity", "2048", "--fpp", "1e-6"),
    "counting": ("--capacity", "2048", "--fpp", "1e-6"),
    "cuckoo": ("--capacity", "2048", "--fpp", "1e-6"),
    "digest": ("--capacity", "2048"),
    "bitmap": ("--capacity", "2048", "--fpp", "0.01"),
    # Their slices multiply digests. Programs older than these files know no other hash than this one.
    "cuckoo-mmh3": ("--capacity", "2048", "--fpp", "1e-6", "--hash", "mmh3"),
    "digest-mmh3": ("--capacity", "2048", "--hash", "mmh3"),
}
LINES = [f"line {number}" for number in range(0, 3_000, 3)]


def main() -> None:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for kind, words in FILTERS.items():
        _filter(target / f"{kind}.filter", kind, words)


def _filter(path: Path, kind: str, words: tuple[str, ...]) -> None:
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "crawler", "dedup", "--raw", "--filter", str(path)]
    command += ["--seen", kind.partition("-")[0], *words]
    subprocess.run(command, input="\n".join(LINES) + "\n", text=True, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
