"""A power loss by ``benchmarks/durability/synced.c`` takes what was not synced, and nothing else."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.durability.synced import Synced
from tests.needs import need

# "whole" is synced by its file system; the number of "removed" may become that of "new".
WRITES = """
import ctypes, os, sys
os.chdir(sys.argv[1])
os.mkdir("deep")

def write(name, data, sync=False):
    with open(name, "ab", buffering=0) as file:
        file.write(data)
        if sync:
            os.fsync(file)

write("deep/whole", b"w" * 100)
top = os.open(".", os.O_RDONLY)
assert ctypes.CDLL(None).syncfs(top) == 0
write("part", b"p" * 100, True)
os.rename("part", "renamed")
write("renamed", b"q" * 50)
write("removed", b"r" * 100, True)
os.unlink("removed")
write("new", b"n" * 80)
write("cut", b"c" * 100, True)
os.ftruncate(os.open("cut", os.O_RDWR), 30)
write("cut", b"d" * 40)
write("late", b"l" * 10)
"""


@pytest.mark.parametrize("all_of_it", [False, True])
def test_what_was_synced_is_left(tmp_path: Path, all_of_it: bool) -> None:
    need("gcc", "gcc libc6-dev")
    there, chance = tmp_path / "there", random.Random(1)
    there.mkdir()
    synced = Synced(tmp_path)
    subprocess.run([sys.executable, "-c", WRITES, there], env={**os.environ, **synced.environment}, check=True)
    sizes = {"deep/whole": 100, "renamed": 100, "new": 0, "cut": 30, "late": 0}
    lost = synced.lose_power(there, chance, all_of_it=all_of_it)
    left = {name: (there / name).stat().st_size for name in sizes}
    assert lost == 410 - sum(left.values())
    if all_of_it:
        assert left == sizes
    else:
        assert all(left[name] >= size for name, size in sizes.items())
        assert left != sizes
    assert synced.lose_power(there, chance, all_of_it=True) == 0, "what a loss has left is on the disk"
    assert not (there / "removed").exists()
