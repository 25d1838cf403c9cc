"""``crawler check`` on a small site with every kind of broken link, whole, killed and again."""

from __future__ import annotations

import csv
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.server import Answer, Server, page, redirect
from tests.program import Ran, crawler, running
from tests.site import linked

HERE, THERE = "127.0.0.1", "127.0.0.2"
# Waits that make a polite crawl; they are tested elsewhere.
CONFIG = """
[retry]
tries = 1
[politeness]
backoff_first = 0.01
"""
ANUBIS = '<script id="anubis_challenge" type="application/json"></script><script id="anubis_version"></script>'
STATUSES = ("401", "403", "407", "429", "503", "999", "404", "500")
LEAVES = 12  # pages that link to the same broken one


def web(port: int) -> dict[str, dict[str, Answer]]:
    outside = [f"http://{THERE}:{port}/{name}" for name in (*STATUSES, "fine", "moved", "anubis", "long")]
    inside = [
        "/old",
        "/circle",
        "/wall",
        "/closed#there",
        "/secret",
        "/503",
        *(f"/leaf/{number}" for number in range(LEAVES)),
    ]
    odd = (
        '<a href="/gone">=1+1 <b>\x1b]0;x\x07</b></a><img src="/lost.png"><a href="/leaf/1#he\tre">has it</a>'
        '<a href="/leaf/1#not-here">no such place</a><a href="#">top</a><a href="#top">top</a>'
        '<a href="#in%20here">in</a><a href="/leaf/2#:~:text=words">text</a><p id="in here">'
        f'<a href="/to-leaf#nor-here">by a redirect</a><a href="http://127.0.0.3:{port}/">refused</a>'
    )
    site: dict[str, Answer] = {
        "/": page(linked([*inside, *outside]) + odd),
        "/old": redirect("/older"),
        "/older": redirect("/gone-too", "301 Moved"),
        "/circle": redirect("/circle-back"),
        "/wall": redirect("/wall"),
        "/closed": page("<p>", status="403 No"),
        "/circle-back": redirect("/circle"),
        "/to-leaf": redirect("/leaf/3"),
        "/robots.txt": page("User-agent: *\nDisallow: /secret", kind="text/plain"),
        "/503": page(status="503 Busy"),
        **{
            f"/leaf/{n}": page(f'<a name=here></a><a href="/gone">Leaf {n}</a><a href="/">up</a>')
            for n in range(LEAVES)
        },
    }
    other: dict[str, Answer] = {f"/{each}": page(status=f"{each} Hm") for each in STATUSES}
    other |= {"/fine": page(linked(["/never"])), "/moved": redirect("/404"), "/anubis": page(ANUBIS)}
    other["/long"] = page(linked(["/never"]) + "x" * 2**20)
    return {HERE: site, THERE: other}


@pytest.fixture
def site() -> Iterator[Server]:
    with Server({}) as server:
        server.listen(HERE)
        server.listen(THERE)
        server.pages |= web(server.port)
        yield server


def words(site: Server, here: Path, *more: str) -> list[str]:
    (here / "check.toml").write_text(CONFIG)
    flags = ["--allow-private", "--delay", "0", "--quiet", "--config", "check.toml", "--csv", "broken.csv"]
    return ["check", f"http://{HERE}:{site.port}/", *flags, *more]


def check(site: Server, here: Path, *more: str) -> Ran:
    return crawler(*words(site, here, *more), directory=here)


def table(here: Path) -> list[dict[str, str]]:
    with open(here / "broken.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_each_kind_of_broken_link_is_listed_with_all_pages_that_have_it(tmp_path: Path, site: Server) -> None:
    ran = check(site, tmp_path, "--images", "--anchors")
    assert ran.code == 1, ran.err
    home, other = f"http://{HERE}:{site.port}", f"http://{THERE}:{site.port}"
    rows = table(tmp_path)
    pages = Counter((row["result"], row["url"], row["status"], row["kind"], row["target"]) for row in rows)
    assert pages == {
        ("broken", f"{home}/gone", "404", "a", ""): 1 + LEAVES,
        ("broken", f"{home}/lost.png", "404", "img", ""): 1,
        ("broken", f"{home}/leaf/1#not-here", "", "a", ""): 1,
        ("broken", f"{home}/leaf/3#nor-here", "", "a", ""): 1,
        ("broken", f"{home}/old", "404", "a", f"{home}/gone-too"): 1,
        ("broken", f"{home}/circle", "", "a", f"{home}/circle-back"): 1,
        ("broken", f"{home}/503", "503", "a", ""): 1,
        ("broken", f"{other}/404", "404", "a", ""): 1,
        ("broken", f"{other}/500", "500", "a", ""): 1,
        ("broken", f"{other}/moved", "404", "a", f"{other}/404"): 1,
        ("broken", f"http://127.0.0.3:{site.port}/", "", "a", ""): 1,
        ("unchecked", f"{home}/secret", "", "a", ""): 1,
        ("unchecked", f"{home}/wall", "", "a", f"{home}/wall"): 1,
        ("unchecked", f"{home}/closed", "403", "a", ""): 1,
        **{("unchecked", f"{other}/{each}", each, "a", ""): 1 for each in ("401", "403", "407", "429", "503", "999")},
        ("unchecked", f"{other}/anubis", "200", "a", ""): 1,
    }
    (text,) = (row["text"] for row in rows if row["url"] == f"{home}/gone" and row["page"] == f"{home}/")
    assert text.startswith("'=1+1"), "no formula"
    assert "\x1b" not in ran.out
    assert b"\x1b" not in (tmp_path / "broken.csv").read_bytes()
    assert check(site, tmp_path, "--csv", "x" * 250).code == 2, "no room for the name of what is written beside it"
    listed = ran.out.split(f"{home}/gone\n")[1].split("\n\n")[0].splitlines()
    assert len(listed) == 1 + 10 + 1, "the reason, ten pages, and how many more"
    times = Counter((asked.host, asked.path) for asked in site.asked)
    assert set(times.values()) == {1}
    assert (THERE, "/robots.txt") in times
    assert (THERE, "/never") not in times


def test_what_is_asked_for_alone_is_checked(tmp_path: Path, site: Server) -> None:
    assert check(site, tmp_path, "--no-external").code == 1
    found = {row["url"].partition(str(site.port))[2] for row in table(tmp_path) if row["result"] == "broken"}
    assert found == {"/gone", "/old", "/circle", "/503"}
    assert {asked.host for asked in site.asked} == {HERE}
    site.pages[HERE] = {"/": page(linked(["/fine"])), "/fine": page()}
    ran = check(site, tmp_path, "--no-external")
    assert (ran.code, table(tmp_path)) == (0, []), "a check that has ended is started afresh"
    lost, sorry = [f"/no/{n}" for n in range(3)] + ["/no/such/page"], page("Sorry, nothing is here." + linked(["/"]))
    site.pages[HERE] = lambda path: page(linked(lost)) if path == "/" else sorry
    assert check(site, tmp_path, "--no-external").code == 1
    assert {row["url"].partition(str(site.port))[2] for row in table(tmp_path)} == {*lost}, "soft 404s, also the first"
    del site.pages[HERE]
    assert check(site, tmp_path, "--no-external").code == 1
    assert [(row["url"], row["kind"]) for row in table(tmp_path)] == [(f"http://{HERE}:{site.port}/", "seed")]


def test_killed_and_resumed_a_check_finds_the_same(tmp_path: Path, site: Server) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    check(site, whole, "--images", "--anchors")
    wanted, answers = table(whole), web(site.port)[HERE]
    site.asked.clear()
    gate: list[Any] = []

    def killing(path: str) -> Answer | None:
        if path == "/leaf/5" and gate:
            gate.pop().kill()
        return answers.get(path)

    site.pages[HERE] = killing
    with running(*words(site, tmp_path, "--images", "--anchors"), directory=tmp_path) as process:
        gate.append(process)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "broken.csv").exists()
    assert check(site, tmp_path, "--anchors").code == 2, "another check than the one that was killed"
    assert check(site, tmp_path, "--images", "--anchors").code == 1
    assert table(tmp_path) == wanted


def test_nothing_but_a_check_that_has_ended_is_removed(tmp_path: Path, site: Server) -> None:
    job = tmp_path / "check-job"
    address = f"http://{HERE}:{site.port}/"
    assert crawler(address, "--allow-private", "--max-pages", "1", "--job", job).code in (0, 3)
    before = (job / "pages.jsonl").read_bytes()
    assert check(site, tmp_path).code == 2
    assert (job / "pages.jsonl").read_bytes() == before
    mine = tmp_path / "mine"
    with running(*words(site, tmp_path, "--job", "mine", "--no-external"), directory=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.close()  # as `head` does: the check has ended all the same
        process.wait()
    for name in ("notes.txt", "links/notes.txt", "store/notes.txt", "command.json"):
        (mine / name).write_text("of a user")
        assert check(site, tmp_path, "--job", "mine", "--no-external").code == 2
        (mine / name).unlink()
    assert (mine / "pages.jsonl").exists()
    (mine / "lost+found").mkdir()
    assert check(site, tmp_path, "--job", "mine", "--max-pages", "1").code == 0
    assert (mine / "lost+found").exists()
    (tmp_path / "broken.csv").write_text("of a user")
    assert check(site, tmp_path, "--job", "other").code == 2
    assert (tmp_path / "broken.csv").read_text() == "of a user"
