"""Nothing that a page, a server or an argument says is obeyed by the terminal on which a command prints it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.printable import printable
from tests.hostile.server import head, page
from tests.hostile.web import EVIL, Hostile
from tests.program import crawler
from tests.site import linked

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt.exe\u2066\r"
PRIVATE = "[fd00::beef]:81"  # rich would take its brackets for markup


def is_safe(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


@given(st.text())
def test_printable_text_has_lines_of_printable_characters_and_is_kept_where_it_is_safe(text: str) -> None:
    shown = printable(text)
    assert is_safe(shown)
    assert printable(shown) == shown
    if is_safe(text):
        assert shown == text
    shown.encode("utf-8")  # no lone surrogates either


def test_no_command_hands_what_a_host_says_to_the_terminal(hostile: Hostile) -> None:
    say = ESCAPES.replace("\r", "")
    hostile.pages[EVIL] = {
        "/": page(linked(["/moved", "/kind", f"http://{PRIVATE}/[bold red]x[/]"])),
        "/moved": head(f"Location: http://[{say}/", status="302 Moved"),
        "/kind": head(kind=f"text/{say}"),
    }
    hostile.crawl("--scope", "any", settings={"retry.tries": 1, "fetch.connect_timeout": 0.5})
    url = hostile.url("/moved")
    for words in (
        ("hosts", hostile.job),
        ("explain", hostile.job, url),
        ("explain", hostile.job, url + ESCAPES.replace("\r", "")),
        ("stats", hostile.job),
        ("top", hostile.job),
        ("tail", hostile.job),
        ("verify", hostile.job),
    ):
        ran = crawler(*words)
        assert is_safe(ran.out), words
        assert is_safe(ran.err), words
        assert ran.code == 0 or words[0] == "explain", ran.err
    assert PRIVATE in crawler("hosts", hostile.job).out


@pytest.mark.parametrize("command", ["stats", "crawl", "verify", "hosts", "tail"])
def test_nor_what_an_argument_says(command: str) -> None:
    ran = crawler(command, f"no\x1b[31m{ESCAPES}")
    assert ran.code == 2
    assert is_safe(ran.err)
    assert "\\x1b[31m" in ran.err
