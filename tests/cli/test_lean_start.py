"""What a command imports, and what it does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

import pytest

from crawler.cli import COMMANDS, main
from tests.program import ROOT, crawler

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


def test_the_help_names_every_command_and_each_has_its_own() -> None:
    text = crawler("--help").out
    for name, help_text in COMMANDS.items():
        assert re.search(rf"^    {name}\s", text, re.MULTILINE)
        assert help_text.split()[0] in text
        assert callable(import_module(f"crawler.cli.{name}").add_options)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: crawler {name} ")


def helped(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[list[str], str]]:
    """The options that have choices, with their texts: of a command, and of the commands below it."""
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    text = capsys.readouterr().out
    below = re.findall(r"^    ([a-z]+) ", text, re.MULTILINE) if "ACTION ..." in text else []
    for name in below:
        yield from helped([*words, name], capsys)
    for entry in re.split(r"\n(?=\n|  \S)", text.partition("\n\n")[2]):
        found = re.match(r"\n?\s+(?:--?[a-z-]+,? )*\{([^}]+)\}(.*)", entry, re.DOTALL)
        if found:
            yield re.split(r",\s*", found[1]), " ".join(found[2].split())


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_lists_its_choices_twice(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """argparse shows them in front of the text, unless the option has a word of its own for its value."""
    found = list(helped([name], capsys))
    assert found or name not in ("crawl", "demo", "hosts", "filter")
    for listed, text in found:
        choices = "|".join(map(re.escape, listed))
        assert not re.search(rf"\b({choices})(, | or |, or |[|/])({choices})\b", text), (name, listed, text)
