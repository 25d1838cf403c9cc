"""Completion, as real shells do it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from crawler.cli import COMMANDS
from tests.needs import need
from tests.program import crawler

# What bash does when Tab is pressed behind the words: it calls the function with these variables.
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="$*"; COMPREPLY=()
"$(complete -p crawler | sed -n 's/.*-F \\([^ ]*\\) .*/\\1/p')"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'source $argv[1]; complete -C "$argv[2]" | string split -f1 \\t'


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    (folder / "my-job").mkdir(parents=True)
    for name in ("seeds.txt", "my.toml"):
        (folder / name).touch()
    return folder


def completed(shell: str, line: str, here: Path) -> set[str]:
    """What the shell offers for the last word of the line."""
    script = here.parent / f"completion.{shell}"
    if not script.exists():
        script.write_text(crawler("completion", shell).out)
    if shell == "fish":
        words = [need("fish", "fish"), "--no-config", "-c", FISH, str(script), line]
    else:
        words = [need("bash", "bash"), "-c", BASH, "bash", str(script), *line.split(" ")]
    ran = subprocess.run(words, cwd=here, capture_output=True, text=True, check=True, timeout=60)
    return {each.rstrip("/") for each in ran.stdout.splitlines() if each}


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("crawler sta", {"stats"}),
        ("crawler crawl seeds.txt --max-", {"--max-pages", "--max-depth", "--max-time"}),
        ("crawler crawl seeds.txt --scope ", {"host", "domain", "prefix", "any"}),
        ("crawler crawl seeds.txt --job my", {"my-job"}),
        ("crawler stats ", {"my-job"}),
        ("crawler seeds.txt --max-p", {"--max-pages"}),
        ("crawler export my-job --par", {"--parquet"}),
        ("crawler filter in", {"info"}),
        ("crawler completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_a_shell_completes(here: Path, shell: str, line: str, offered: set[str]) -> None:
    found = completed(shell, line, here)
    assert offered <= found
    assert found <= offered | {"crawl", "help", "-h", "--help"} or shell == "fish"


def test_bash_completes_the_name_of_a_seeds_file(here: Path) -> None:
    assert set(COMMANDS) <= completed("bash", "crawler ", here)


def test_zsh_understands_its_script(here: Path) -> None:
    (here / "_crawler").write_text(crawler("completion", "zsh").out)
    subprocess.run([need("zsh", "zsh"), "-n", here / "_crawler"], check=True)
    loaded = f"fpath=({here} $fpath); autoload -U compinit; compinit -u -d dump; print $_comps[crawler]"
    told = subprocess.run(
        [need("zsh", "zsh"), "-f", "-c", loaded], cwd=here, capture_output=True, text=True, check=True
    )
    assert told.stdout == "_crawler\n"


def test_another_shell_is_refused() -> None:
    ran = crawler("completion", "zhs")
    assert (ran.code, "did you mean 'zsh'" in ran.err) == (2, True)
