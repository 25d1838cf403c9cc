"""Hosts that bar the crawler from their pages: it says so, asks them more slowly, and solves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.job.recovery import stored_counters
from crawler.web.fetch import Response
from tests.frontier.traps.test_challenges import FORM, PAGES
from tests.jobs import rows
from tests.laboratory import Laboratory, links
from tests.simulated_web import page, redirect

BARRED = PAGES["challenge of Anubis"] + links(["/more"])


@pytest.fixture(autouse=True)
def _without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.frontier.backoff_policy.JITTER", 0.0)


def laboratory(directory: Path, pages: dict[str, Any], **politeness: Any) -> Laboratory:
    return Laboratory(directory / "job", pages).with_politeness(**{"delay": 1.0, **politeness})


def gaps(lab: Laboratory) -> list[float]:
    return [round(after.begin - before.end, 3) for before, after in zip(lab.asked, lab.asked[1:], strict=False)]


def test_a_challenge_is_told_and_slows_its_host_down(tmp_path: Path) -> None:
    paths = [f"/{name}" for name in "abcdef"]
    pages = {f"http://a.test{path}": BARRED for path in paths} | {"http://a.test/": links(paths)}
    pages["http://a.test/d"] = "let through"
    lab = laboratory(tmp_path, pages)
    lab.run("http://a.test/")
    found = {row["url"].removeprefix("http://a.test"): row for row in rows(tmp_path / "job")}
    assert set(found) == {"/", *paths}, "its links are not followed"
    assert {found[path]["outcome"] for path in paths if path != "/d"} == {"blocked"}
    assert found["/a"]["status"] == 200
    assert found["/d"]["outcome"] == found["/"]["outcome"] == "fetched"
    assert gaps(lab) == [1.0, 5.0, 10.0, 20.0, 1.0, 5.0], "doubled, until an answer is a page"
    counted = stored_counters(lab.store)
    assert (counted.pages_blocked, counted.pages_fetched, counted.pages_failed, counted.pending) == (5, 2, 0, 0)


def test_it_never_retires_its_host(tmp_path: Path) -> None:
    paths = [f"/{number}" for number in range(12)]
    pages = {f"http://a.test{path}": BARRED for path in paths} | {"http://a.test/": links(paths)}
    lab = laboratory(tmp_path, pages, patience="short")
    lab.run("http://a.test/")
    assert len(lab.asked) == 13
    assert gaps(lab) == [1.0, *(5.0 * 2**number for number in range(7)), *[600.0] * 4]


def test_a_header_is_a_sign_whatever_the_body_is(tmp_path: Path) -> None:
    empty = replace(page(""), status=202, headers={"x-amzn-waf-action": "challenge"}, content_type=None, body=None)
    barred = replace(page(links(["/more"])), headers={"cf-mitigated": "challenge"})
    denied = replace(barred, status=403)
    pages = {"http://a.test/": empty, "http://b.test/": barred, "http://c.test/": denied}
    lab = laboratory(tmp_path, pages)
    lab.run(*pages)
    found = {row["url"]: (row["outcome"], row["status"], row["error"]) for row in rows(tmp_path / "job")}
    assert found == {
        "http://a.test/": ("blocked", 202, "challenge of AWS WAF: x-amzn-waf-action: challenge"),
        "http://b.test/": ("blocked", 200, "challenge of Cloudflare: cf-mitigated: challenge"),
        "http://c.test/": ("fetched", 403, None),
    }


def test_a_login_is_told_and_its_links_are_followed(tmp_path: Path) -> None:
    form = FORM.decode() + links(["/about"])
    pages: dict[str, Any] = {
        "http://a.test/": links(["/private", "/page", "/login"]),
        "http://a.test/private": redirect("/login?next=/private"),
        "http://a.test/login?next=/private": form,
        "http://a.test/login": form + "the form itself",
        "http://a.test/page": "a page",
        "http://a.test/about": "about",
    }
    lab = laboratory(tmp_path, pages)
    lab.run("http://a.test/")
    found = {row["url"]: row["outcome"] for row in rows(tmp_path / "job")}
    assert found.pop("http://a.test/login?next=/private") == "blocked"
    assert found.pop("http://a.test/private") == "redirect"
    assert set(found.values()) == {"fetched"}
    assert set(found) == {f"http://a.test/{path}" for path in ("", "login", "page", "about")}
    assert sorted(gaps(lab)) == [1.0, 1.0, 1.0, 1.0, 5.0]


def test_a_time_that_an_answer_names_and_a_price(tmp_path: Path) -> None:
    answers = iter([replace(page(""), status=403, retry_after="7"), page("open again")])
    after = replace(redirect("/end"), retry_after="9")
    paid = replace(page(links(["/more"])), status=402, headers={"Crawler-Price": "USD  0.01"})
    pages: dict[str, Any] = {"http://a.test/": links(["/banned", "/paid", "/late", "/shut"])} | {
        "http://a.test/banned": lambda _: next(answers),
        "http://a.test/paid": paid,
        "http://a.test/late": after,
        "http://a.test/shut": replace(page(""), status=403, retry_after="0"),
        "http://a.test/end": "end",
    }
    lab = laboratory(tmp_path, pages)
    lab.run("http://a.test/")
    found = {row["url"].removeprefix("http://a.test"): row for row in rows(tmp_path / "job")}
    assert set(found) == {"/", "/banned", "/paid", "/late", "/shut", "/end"}
    assert (found["/paid"]["outcome"], found["/paid"]["price"], found["/paid"]["links"]) == ("payment", "USD 0.01", 0)
    assert found["/banned"]["status"] == 200
    assert (found["/shut"]["status"], found["/late"]["location"]) == (403, "http://a.test/end")
    assert sorted(gaps(lab)) == [1.0, 1.0, 1.0, 1.0, 7.0, 9.0]


def test_a_redirect_without_a_target_is_a_page(tmp_path: Path) -> None:
    moved = Response(302, {}, "text/html", "utf-8", links(["/next"]).encode(), None, None, 0.0, 9)
    lab = laboratory(tmp_path, {"http://a.test/": lambda _: moved, "http://a.test/next": "x"})
    lab.run("http://a.test/")
    found = {row["url"]: (row["outcome"], row["status"]) for row in rows(tmp_path / "job")}
    assert found == {"http://a.test/": ("fetched", 302), "http://a.test/next": ("fetched", 200)}
