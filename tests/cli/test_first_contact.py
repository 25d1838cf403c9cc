"""What somebody meets first: URLs as arguments, lists of any kind, wrong words, help, and a missing contact."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
from pathlib import Path

import pytest

from crawler.cli import COMMANDS, GROUPS, command_parser
from crawler.cli.help_text import FIRST, overview
from tests.cli.test_bad_input import refused
from tests.program import crawler
from tests.site import Site, linked, tree

QUICK = ("--allow-private", "--delay", "0")


def fetched(job: Path) -> list[str]:
    return sorted(json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines())


def test_help_fits_a_screen_and_help_all_names_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first, everything = overview(GROUPS).splitlines(), overview(GROUPS, whole=True)
    assert len(first) <= 24
    assert max(map(len, first)) <= 80
    named = [line.split()[0] for line in first if line.startswith("    ") and not line.startswith("     ")]
    assert named == [name for name in FIRST if name in COMMANDS]
    assert all(re.search(rf"^    {name} ", everything, re.MULTILINE) for name in COMMANDS)


def test_each_flag_of_a_crawl_is_listed_once_and_the_first_ones_on_top() -> None:
    flags = re.findall(r"^  (--[a-z-]+)", command_parser("crawl").commands["crawl"].format_help(), re.MULTILINE)
    assert flags[:3] == ["--job", "--output", "--max-pages"]
    assert len(flags) == len(set(flags)) > 30


def test_a_url_is_enough(tmp_path: Path) -> None:
    with Site({"/": linked(["/a"]), "/a": "page"}) as site:
        ran = crawler(site.url("/"), *QUICK, directory=tmp_path)
        assert (ran.code, fetched(tmp_path / "crawl-job")) == (0, [site.url("/"), site.url("/a")]), ran.err
        again = crawler(site.url("/"), *QUICK, directory=tmp_path)
        assert again.code == 0
        assert "resuming crawl-job" in again.err


def test_a_url_may_be_longer_than_the_name_of_a_file(tmp_path: Path) -> None:
    with Site({}) as site:
        for url in (site.url("/" + "long/" * 900 + "x" * 300), site.url("/?" + "x" * 400)):
            for word in (url, url.removeprefix("http://")):
                ran = crawler(word, "--job", tmp_path / str(len(os.listdir(tmp_path))), *QUICK)
                assert (ran.code, site.asked[-1].path) == (0, url.removeprefix(f"http://{site.hosts[0]}")), ran.err


def test_urls_files_and_a_stream_in_any_mixture(tmp_path: Path) -> None:
    paths = [f"/{name}" for name in "abcdefg"]
    with Site(dict.fromkeys(paths, "page")) as site:
        a, b, c, d, e, f, g = map(site.url, paths)
        (tmp_path / "one.txt").write_text(f"{c}\n{d}\n")
        (tmp_path / "two").write_bytes(gzip.compress(f"{e}\n".encode()))
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(f,), daemon=True)
        writer.start()
        words = (
            a,
            tmp_path / "one.txt",
            "--job",
            tmp_path / "job",
            b,
            tmp_path / "two",
            *QUICK,
            "-",
            tmp_path / "pipe",
        )
        ran = crawler(*words, stdin=g)
        assert (ran.code, fetched(tmp_path / "job")) == (0, [a, b, c, d, e, f, g]), ran.err
        writer.join(10)


@pytest.mark.parametrize("form", ["{host}", "http:{host}", "//{host}/"])
def test_a_url_may_be_written_as_people_write_it(tmp_path: Path, form: str) -> None:
    with Site({"/": "page"}) as site:
        host = site.hosts[0]
        ran = crawler(form.format(host=host), "--job", tmp_path / "job", *QUICK)
        assert (ran.code, fetched(tmp_path / "job")) == (0, [site.url("/")]), ran.err
        taken = [line for line in ran.err.splitlines() if "taking" in line]
        assert len(taken) == (0 if form.lower().startswith("http") else 1)
        assert all(f"http://{host}" in line for line in taken)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["https://example.org:99999/"], ["https://example.org:99999/", "invalid URL"]),
        (["ftp://example.org/"], ["not http or https"]),
        (["http://127.0.0.1:9/", "https://[::bad"], ["[::bad"]),
        (["urls.zip"], ["seeds file urls.zip does not exist", "https://urls.zip"]),
        (["shop.example"], ["seeds file shop.example does not exist", "https://shop.example"]),
        (["-", "-"], ["standard input"]),
        (["nonsense/" * 30 + "x" * 300], ["seeds file nonsense/", "does not exist"]),
        (["x" * 300], ["cannot read seeds file xxx"]),
        ([" "], ["names no seeds"]),
    ],
)
def test_words_that_are_no_seeds(tmp_path: Path, words: list[str], said: list[str]) -> None:
    ran = crawler(*words, "--job", tmp_path / "job", directory=tmp_path)
    refused(ran, *said)
    assert os.listdir(tmp_path) == []


def test_a_file_goes_before_the_site_of_the_same_name(tmp_path: Path) -> None:
    with Site({"/": "page"}) as site:
        (tmp_path / "example.org").write_text(site.url("/"))
        assert crawler("example.org", "--job", tmp_path / "job", *QUICK, directory=tmp_path).code == 0
        assert fetched(tmp_path / "job") == [site.url("/")]
    (tmp_path / "example.com").mkdir()
    refused(crawler("example.com", "--job", "x", directory=tmp_path), "is a directory", "https://example.com")


def test_a_damaged_list_begins_nothing(tmp_path: Path) -> None:
    whole = gzip.compress(b"http://127.0.0.1:9/\n" * 10_000)
    for content, said in (
        (whole[:-9], "is damaged: its gzip data is cut off"),
        (whole[:60] + b"\0" * 20 + whole[80:], "is damaged: its gzip data"),
        (gzip.compress(whole), "is compressed twice"),
        (gzip.compress(b"\x7fELF\0\1"), "not text"),
        (gzip.compress(b""), "holds no URL"),
        (gzip.compress(b"nonsense\n"), "holds no http or https URL"),
    ):
        (tmp_path / "seeds.txt.gz").write_bytes(content)
        refused(crawler(tmp_path / "seeds.txt.gz", "--job", tmp_path / "job"), "seeds.txt.gz", said)
        assert not (tmp_path / "job").exists()
    refused(crawler("-", "--job", tmp_path / "job", "--quiet", stdin=gzip.compress(b"")[:-2]), "standard input")
    assert not (tmp_path / "job").exists()


def test_a_stream_that_is_damaged_ends_a_crawl_that_can_be_resumed(tmp_path: Path) -> None:
    with Site(tree(20)) as site:
        lines = "".join(f"{site.url('/')}?{os.urandom(20).hex()}\n" for _ in range(2_000))
        packed = gzip.compress(f"{site.url('/page/3')}\n{lines}".encode())
        ran = crawler("-", "--job", tmp_path / "job", *QUICK, stdin=packed[:-2_000])
        assert ran.code == 2
        assert crawler("verify", tmp_path / "job").code == 0
        assert crawler("-", "--job", tmp_path / "job", *QUICK, "--max-pages", "30").code == 0


def test_other_urls_for_the_default_directory_are_refused(tmp_path: Path) -> None:
    with Site({"/": "page", "/a": "page"}) as site:
        assert crawler(site.url("/"), *QUICK, directory=tmp_path).code == 0
        refused(crawler(site.url("/a"), *QUICK, directory=tmp_path), "crawl-job", site.url("/a"), "--job")
        assert fetched(tmp_path / "crawl-job") == [site.url("/")]
        assert crawler(site.url("/a"), site.url("/"), *QUICK, directory=tmp_path).code == 0
        assert fetched(tmp_path / "crawl-job") == [site.url("/"), site.url("/a")]


def test_a_flag_is_not_abbreviated(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("http://127.0.0.1:9/")
    refused(crawler(tmp_path / "x.txt", "--job", tmp_path / "job", "--max-p", "3"), "--max-p", "--max-pages")


def test_a_crawl_of_others_without_a_contact_is_warned_once(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("http://127.0.0.1:9/\nhttp://10.0.0.1/\nhttp://10.0.0.2/\n")
    words = ("seeds.txt", "--job", "job", "--ignore-robots")

    def warnings(*more: str) -> int:
        return crawler(*words, *more, directory=tmp_path).err.count("--contact")

    assert warnings() == 1, "10.0.0.1 is not asked, but it is not this machine"
    assert warnings() == 0, "the user has been told"
    assert warnings("--contact", "me@example.org") == 0
    assert warnings() == 1, "the last run had one"
    assert warnings("--quiet", "--user-agent", "mine/1.0 (+https://example.org/)") == 0


def test_a_crawl_of_ones_own_machine_needs_no_contact(tmp_path: Path) -> None:
    with Site({"/": "page"}) as site:
        ran = crawler(site.url("/"), "--job", tmp_path / "job", *QUICK)
        assert (ran.code, "--contact" in ran.err) == (0, False)
