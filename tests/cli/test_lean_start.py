"""What a command imports, and what it does not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from crawler.cli import COMMANDS, main
from tests.program import ROOT

LOOK = """
import json, sys
from crawler.cli import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit:
    pass
sys.stdout.flush()
print("\\n" + json.dumps(sorted(sys.modules)))
"""


def imported(*words: str) -> set[str]:
    """What is imported when the program is run with these words, and nothing comes in."""
    ran = subprocess.run(
        [sys.executable, "-c", LOOK, json.dumps(words)],
        capture_output=True,
        input=b"",
        cwd=ROOT,
        check=True,
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("words", "not_these"),
    [
        (("--help",), {"aiohttp", "asyncio", "numpy", "rich", "rocksdict", "prometheus_client"}),
        (("config",), {"aiohttp", "asyncio", "numpy", "rich", "rocksdict", "prometheus_client"}),
        (("canon",), {"aiohttp", "asyncio", "numpy", "rich", "rocksdict", "prometheus_client"}),
        (("dedup",), {"aiohttp", "asyncio", "rich", "rocksdict", "prometheus_client"}),
        (("filter", "info", "nowhere"), {"aiohttp", "rich", "rocksdict", "prometheus_client"}),
        (("plan", "--urls", "100"), {"aiohttp", "asyncio", "rich", "rocksdict", "prometheus_client"}),
        (("stats", "nowhere"), {"aiohttp", "rich", "prometheus_client"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_does_not_wait_for_what_it_does_not_use(words: tuple[str, ...], not_these: set[str]) -> None:
    modules = imported(*words)
    assert "crawler.cli" in modules
    assert not modules & not_these


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: crawler {name} ")
