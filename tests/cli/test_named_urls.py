"""Commands that take URLs accept them as a crawl does: without a scheme too, and they say what they took them for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs import rows
from tests.program import crawler
from tests.site import Site

QUICK = ("--allow-private", "--delay", "0", "--quiet")


@pytest.mark.parametrize("command", ["add", "explain", "retry", "forget"])
@pytest.mark.parametrize("form", ["{host}/page", "//{host}/page", "http:{host}/page", "HTTP://{host}/page"])
def test_a_url_may_be_written_as_people_write_it(tmp_path: Path, command: str, form: str) -> None:
    with Site({"/": "<a href=/page>x</a>", "/page": "page"}) as site:
        job, host = tmp_path / "job", site.hosts[0]
        assert crawler(site.url("/"), "--job", job, *QUICK, "--seen", "exact").code == 0
        before = len(rows(job))
        ran = crawler(command, job, form.format(host=host))
        assert ran.code == 0, ran.err
        said = [line for line in ran.err.splitlines() if "taking" in line]
        assert len(said) == (0 if form.lower().startswith("http") else 1)
        assert all(f"http://{host}/page" in line for line in said)
        results = {
            "add": "0 admitted, 1 known",
            "explain": f"http://{host}/page",
            "retry": "1 URL queued again",
            "forget": f"forgotten: http://{host}/page",
        }
        assert results[command] in ran.out
        assert len(rows(job)) == before


def test_many_urls_without_a_scheme_are_said_in_one_short_line(tmp_path: Path) -> None:
    with Site({"/": "page"}) as site:
        job, host = tmp_path / "job", site.hosts[0]
        assert crawler(site.url("/"), "--job", job, *QUICK).code == 0
        ran = crawler("add", job, *(f"{host}/{number}" for number in range(300)))
        assert (ran.code, ran.err.count("taking"), len(ran.err) < 500) == (0, 1, True), ran.err
        assert "300 admitted" in ran.out


@pytest.mark.parametrize("command", ["add", "retry", "forget"])
def test_what_names_no_url_is_refused_as_before(tmp_path: Path, command: str) -> None:
    with Site({"/": "page"}) as site:
        job = tmp_path / "job"
        assert crawler(site.url("/"), "--job", job, *QUICK, "--seen", "exact").code == 0
        for word in ("nonsense", "mailto:someone@example.org", "17,example.org"):
            ran = crawler(command, job, word)
            assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran.err
