"""How often keys that do not exist reach a database behind a filter: the how-to, with a million of them.

    python -m benchmarks.filters.penetration [--keys N]

It carries out docs/how-to/filter-before-a-database.md on a Redis of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.filters.add_many import machine
from tests.base.carrier.redis_server import redis_server
from tests.test_examples import carry_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    keys = parser.parse_args().keys
    print(machine())
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name) / "redis") as server:
        here = Path(name) / "here"
        here.mkdir()
        changes = {"-p 6379": f"-p {server.port}", "attack.py 6379": f"attack.py {server.port}"}
        carry_out("filter-before-a-database.md", here, changes)
        words = [sys.executable, "attack.py", str(server.port), str(keys)]
        print(subprocess.run(words, cwd=here, capture_output=True, text=True, check=True).stdout, end="")


if __name__ == "__main__":
    main()
