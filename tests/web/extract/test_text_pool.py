"""The processes that extract text: what a page may do to them, and what is left of them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.processes import lane
from crawler.web.extract import by_trafilatura, main_text
from crawler.web.extract.page_text import Extracted, Forms, NoText
from crawler.web.extract.text_pool import TextLimits, TextPool
from tests.program import ROOT

URL = "http://h.test/"
OBEY = "tests.web.extract.extractors:obey"
LIMITS = TextLimits(processes=2, seconds=0.5, memory=(48 + 256) * 2**20, extractor=OBEY)
Found = Extracted | NoText
Extract = Callable[[str, str, Forms], Extracted]


def run(use: Callable[[TextPool], Awaitable[None]], limits: TextLimits = LIMITS) -> None:
    async def main() -> None:
        with closing(TextPool(limits)) as pool:
            await use(pool)

    asyncio.run(main())


async def extract(pool: TextPool, *pages: str, forms: Forms = Forms.TEXT) -> list[Found]:
    return list(await asyncio.gather(*(pool.extract("h.test", page.encode(), "utf-8", URL, forms) for page in pages)))


def test_what_a_page_does_to_its_process_costs_only_that_page_its_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted: dict[str, Found] = {
        "loop": NoText("it takes more than 0.5 s of CPU time"),
        "eat": NoText("it takes more than 128 MiB of memory"),
        "exit": NoText("it takes more than 128 MiB of memory, or crashed (exit code 3)"),
        "fault": NoText("it takes more than 128 MiB of memory, or crashed (SIGSEGV)"),
        "killed": NoText("its process was killed, or gave no answer"),
        "need 80": Extracted("text: NEED 80"),  # more than the processes for small pages have
        f"once {tmp_path / 'mark'}": Extracted("at the second try"),
    }

    async def use(pool: TextPool) -> None:
        pages = [page for bad in wanted for page in (bad, f"after {bad}")]
        found = dict(zip(pages, await extract(pool, *pages), strict=True))
        assert {page: found[page] for page in wanted} == wanted
        for page in wanted:
            assert found[f"after {page}"] == Extracted(f"text: AFTER {page.upper()}")
        with caplog.at_level(logging.WARNING):
            raised = await extract(pool, "raise \x1b[1mfoul", "raise again")
        assert ["\x1b" not in each.reason for each in raised if isinstance(each, NoText)] == [True, True]
        assert pool.failed == 7
        assert len(caplog.records) == 6, "each kind is logged once, and each place in the code"
        assert "\x1b" not in caplog.text
        assert "extractors.py" in caplog.text

    run(use)


def test_a_large_page_that_takes_long_keeps_no_small_one_waiting() -> None:
    async def use(pool: TextPool) -> None:
        large = asyncio.ensure_future(pool.extract("h.test", b"loop" + b" " * 600_000, None, URL, Forms.TEXT))
        assert await extract(pool, "a") == [Extracted("text: A")]
        assert not large.done()
        assert isinstance(await large, NoText)

    run(use)


def test_the_forms_of_a_text_and_its_encoding() -> None:
    async def use(pool: TextPool) -> None:
        assert await extract(pool, "Käse", forms=Forms(7)) == [
            Extracted("text: KÄSE", "markdown: KÄSE", b'{"of":"%b"}' % URL.encode())
        ]
        assert await extract(pool, "a", forms=Forms.MARKDOWN) == [Extracted(None, "markdown: A")]
        assert await pool.extract("h.test", "é".encode("latin-1"), "iso-8859-1", URL, Forms.TEXT) == Extracted(
            "text: É"
        )
        assert await pool.extract("h.test", b"\xef\xbb\xbfa", None, URL, Forms.TEXT) == Extracted("text: A")
        found = await pool.extract("h.test", b"a" * (4 * 2**20), None, URL, Forms.TEXT)
        assert found == Extracted("text: " + "A" * (4 * 2**20 - 6), cut=True)

    run(use)


def test_a_page_that_gives_no_answer_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    async def use(pool: TextPool) -> None:
        (found,) = await extract(pool, f"hold {tmp_path / 'pipe'}")
        assert isinstance(found, NoText)

    try:
        run(use, TextLimits(patience=0.5, extractor=OBEY))
    finally:
        os.close(reader)


def test_an_extractor_that_does_not_start_costs_no_page_but_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "START_AGAIN", 0.05)

    async def use(pool: TextPool) -> None:
        found = await extract(pool, "a", "b")
        assert [type(each) for each in found] == [NoText] * 2
        assert pool.failed == 2

    run(use, TextLimits(processes=2, extractor="tests.web.extract.no_extractor:obey"))


_CRAWLER = """
import asyncio, sys
from crawler.web.extract.page_text import Forms
from crawler.web.extract.text_pool import TextLimits, TextPool
async def main():
    pool = TextPool(TextLimits(extractor="tests.web.extract.extractors:obey"))
    await pool.extract("h.test", ("hold " + sys.argv[1]).encode(), None, "http://h.test/", Forms.TEXT)
asyncio.run(main())
"""


def test_no_process_outlives_a_crawler_that_is_killed(tmp_path: Path) -> None:
    """Not even one that hangs, and looks at nothing."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    crawler = subprocess.Popen([sys.executable, "-c", _CRAWLER, str(pipe)], cwd=ROOT)
    try:
        with open(pipe, encoding="ascii") as stream:  # waits until the page is with the process
            assert stream.read(1) == "x"
            crawler.send_signal(signal.SIGKILL)
            assert stream.read() == "", "it returns when the process has ended"
    finally:
        crawler.kill()
        crawler.wait()


ARTICLE = "".join(
    f"<p>The {word} paragraph of the article says something about geese that fly north.</p>"
    for word in ("first", "second", "third")
)
PAGE = f"""<!doctype html><html lang=en><title>Geese</title><body>
<nav><ul><li><a href=/>Home page</a><li><a href=/shop>Our shop</a></ul></nav>
<article><h1>Geese <b>fly</b></h1>{ARTICLE}<table><tr><th>Month<th>Geese<tr><td>May<td>12</table></article>
<footer>All rights reserved, imprint, privacy</footer></body></html>"""


EXTRACTORS = [main_text.extract, by_trafilatura.extract]


@pytest.mark.parametrize("extract", EXTRACTORS)
def test_the_main_text_of_an_article_is_without_what_is_around_it(extract: Extract) -> None:
    found = extract(PAGE, URL, Forms.TEXT | Forms.MARKDOWN)
    assert found.text is not None
    assert found.markdown is not None
    for text in (found.text, found.markdown):
        assert "12" in text
        assert "Our shop" not in text
        assert "rights" not in text
    assert "# Geese" in found.markdown
    assert "#" not in found.text
    assert found.language == "en"


@pytest.mark.parametrize("extract", EXTRACTORS)
@pytest.mark.parametrize("page", ["", " ", "plain words", "<p>", "\0" * 100, "<html><body></body></html>"])
def test_a_page_without_text_has_an_empty_one(page: str, extract: Extract) -> None:
    found = extract(page, URL, Forms.TEXT)
    assert found.text is not None
    assert found.language is None


def test_the_text_of_elements_that_are_nested_deeply() -> None:
    for extract in EXTRACTORS:
        found = extract("<div>" * 300 + f"<article>{ARTICLE}", URL, Forms.TEXT).text
        assert "The second paragraph of the article" in (found or "")
    deeper = "<div>" * 3_000 + f"<article>{ARTICLE}"
    assert "The second paragraph of the article" in (main_text.extract(deeper, URL, Forms.TEXT).text or "")
    with pytest.raises(ValueError):  # noqa: PT011
        by_trafilatura.extract(deeper, URL, Forms.TEXT)


def test_a_long_cell_widens_no_column_and_a_layout_of_tables_is_no_table() -> None:
    rows = "".join(f"<tr><td>row {number}<td>b" for number in range(1_000))
    found = main_text.extract(f"<table><tr><th>{'x' * 50_000}<th>B{rows}</table>", URL, Forms.TEXT)
    assert found.text is not None
    assert len(found.text) < 100_000
    assert "row 7 | b" in found.text
    menu = "<td><ul><li><a href=/a>a</a><li><a href=/b>b</a></ul>"
    page = main_text.extract(f"<table><tr>{menu}<td><h1>Geese</h1>{ARTICLE}</table>", URL, Forms.MARKDOWN)
    assert (page.markdown or "").startswith("# Geese")


@pytest.mark.parametrize("href", ["javascript:x", " JaVa\tScript:x", "vbscript:x", "data:text/html,x"])
def test_markdown_runs_nothing(href: str) -> None:
    code = '<pre><code class="language-a`b">&lt;script&gt;alert(1)&lt;/script&gt;</code></pre>'
    page = f'<main>{ARTICLE}<p><a href="{href}">a link in a paragraph</a></p>{code}</main>'
    found = main_text.extract(page, URL, Forms.MARKDOWN).markdown or ""
    assert "](" not in found
    assert "```\n<script>alert(1)</script>\n```" in found
