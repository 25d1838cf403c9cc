"""Bad input: one clear line, exit 2, nothing changed."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from tests.jobs import explain
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, tree


def refused(ran: Ran, *words: str) -> None:
    assert ran.code == 2, ran.err
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1, ran.err
    assert lines[0].startswith("crawler: error: ")
    for word in words:
        assert word in lines[0], lines[0]


@pytest.fixture
def start(tmp_path: Path) -> Path:
    path = tmp_path / "seeds.txt"
    path.write_text("http://127.0.0.1:9/\n")
    return path


@pytest.mark.parametrize(
    "content",
    [b"", b"# nothing but a comment\n\n", b"\x7fELF\x00\x01\x02", b"\x7fELF\x00\nno\n", b"ftp://a.test/\nnonsense\n"],
)
def test_seeds_that_are_none_begin_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "seeds.txt").write_bytes(content)
    refused(crawler(tmp_path / "seeds.txt", "--job", tmp_path / "job"), "seeds.txt")
    refused(crawler("-", "--job", tmp_path / "job", "--quiet", stdin=content), "standard input")
    refused(crawler("/dev/stdin", "--job", tmp_path / "job", "--quiet", stdin=content), "/dev/stdin")
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[politeness]\ndelay = 1" + "0" * 5000, ("quick.toml", "digits")),
        ("crawl = 3", ("quick.toml", "[crawl]", "table")),
        ("not toml", ("quick.toml",)),
        ("[dashboard]\nlisten = '8080'\ntoken = 'short'", ("dashboard.token", "16")),
    ],
)
def test_configuration_that_cannot_be_meant(tmp_path: Path, start: Path, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / "quick.toml").write_text(text)
    # A flag goes into the table that the file should have had.
    flags = ("--scope", "any", "--delay", "0") if text == "crawl = 3" else ()
    refused(crawler(start, "--config", tmp_path / "quick.toml", "--job", tmp_path / "job", *flags), *words)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--fpp", "0"),
        ("--per-host", "100"),
        ("--delay", "x"),
        ("--output", "linsk"),
        ("--output", "pages"),
        ("--output", "text,,links"),
        ("--dashboard", "somewhere"),
        ("--config", "/does/not/exist.toml"),
        ("--no-such-flag",),
        ("--user-agent", "two\nlines"),
        ("--capacity", str(2**40)),
        ("--capacity", str(2**40), "--seen", "exact"),
        ("--fpp", "1e-300", "--seen", "bloom"),
    ],
)
def test_flags_that_cannot_be_meant(tmp_path: Path, start: Path, words: tuple[str, ...]) -> None:
    refused(crawler(start, "--job", tmp_path / "job", *words))
    assert not (tmp_path / "job").exists()


def test_a_port_in_use_changes_nothing(tmp_path: Path, start: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(crawler(start, "--job", tmp_path / "job", "--dashboard", str(port)), str(port), "in use")
    assert not (tmp_path / "job").exists()


def test_a_damaged_identity(tmp_path: Path, start: Path) -> None:
    job = tmp_path / "job"
    crawler(start, "--job", job, "--allow-private", "--ignore-robots", "--max-time", "0.1")
    identity = job / "job.json"
    data = bytearray(identity.read_bytes())
    data[-5] ^= 1
    identity.write_bytes(data)
    refused(crawler(start, "--job", job), "job.json", "checksum")


def test_a_directory_that_holds_something_else(tmp_path: Path, start: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / "pages.jsonl").write_text("{}\n")
    refused(crawler(start, "--job", job), "job.json")
    assert (job / "pages.jsonl").read_text() == "{}\n"


def test_a_job_that_is_in_use(tmp_path: Path) -> None:
    with Site(tree(300), latency=0.05) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        job = tmp_path / "job"
        words = (tmp_path / "seeds.txt", "--job", job, "--allow-private", "--delay", "0")
        with running(*words, "--quiet") as first:
            wait_until(lambda: len(site.asked) > 3, "the first is under way")
            refused(crawler(*words), "in use", str(first.pid))
            live = json.loads(crawler("stats", job, "--json").out)
            assert live["state"] in ("running", "stopped")
            assert live["urls_admitted"] == live["urls_pending"] + live["urls_in_flight"] + live["pages_fetched"]
            found = explain(job, site.url("/page/7"))
            assert found["place"] or found["record"]
            first.send_signal(signal.SIGKILL)
            first.wait()
        assert crawler(*words, "--quiet", "--max-pages", "10").code == 0, "a lock that was left behind is no obstacle"


def test_a_job_where_a_file_stands(tmp_path: Path, start: Path) -> None:
    refused(crawler(start, "--job", start), str(start))
    refused(crawler(start, "--job", Path("/proc/nowhere")), "/proc/nowhere")


def test_what_shaped_the_job_cannot_change(tmp_path: Path, start: Path) -> None:
    job = tmp_path / "job"
    crawler(start, "--job", job, "--allow-private", "--ignore-robots", "--max-time", "0.1", "--fpp", "0.002")
    refused(crawler(start, "--job", job, "--fpp", "0.01"), "seen.fpp", "0.01")
    same = crawler(start, "--job", job, "--fpp", "2e-3", "--allow-private", "--ignore-robots", "--max-time", "0.1")
    assert same.code in (0, 1)
    unsaid = crawler(start, "--job", job, "--allow-private", "--ignore-robots", "--max-time", "0.1")
    assert unsaid.code in (0, 1), "a setting that is not given is the job's"


@pytest.mark.parametrize("command", ["stats", "dashboard"])
def test_looking_where_there_is_no_job(tmp_path: Path, command: str) -> None:
    refused(crawler(command, tmp_path), "holds no crawl")
    refused(crawler(command, tmp_path / "none"), "holds no crawl")
    (tmp_path / "file").touch()
    refused(crawler(command, tmp_path / "file"), "holds no crawl")


@pytest.mark.parametrize("word", ["a\nb", "a\tb.txt", "a\r\nb", "a\x1b[2Jb", "a\u2028b"])
def test_a_word_with_control_characters_is_named_in_one_line_of_text(tmp_path: Path, word: str) -> None:
    ran = crawler(word, "--job", tmp_path / "job")
    assert ran.code == 2
    assert ran.err.endswith("\n")
    assert ran.err[:-1].isprintable(), ran.err
    assert ascii(word)[1:-1] in ran.err
