"""``crawler dedup`` and ``crawler filter`` with a set on Redis."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.base.carrier.redis_server import RedisServer, redis_server
from tests.documents import page
from tests.program import ROOT, wait_until
from tests.seen.shared.kits import SECRET
from tests.tools.dedup.commands import Commands


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as made:
        yield made


@pytest.fixture
def place(server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a set that is not there yet; the secret is in a file."""
    (tmp_path / "secret").write_text(SECRET + "\n")
    monkeypatch.setenv("CRAWLER_FILTER_SECRET_FILE", str(tmp_path / "secret"))
    return f"{server.url}/{tmp_path.name}"


def lines(start: int, end: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(start, end))


def test_two_runs_share_what_they_have_seen(run: Commands, place: str) -> None:
    ended = run("dedup", "--raw", "--filter", place, data=lines(0, 3000))
    assert (ended.code, ended.out) == (0, lines(0, 3000))
    assert "3,000 raw lines: 3,000 new, 0 seen before" in ended.err
    ended = run("dedup", "--filter", place, data=lines(2000, 5000))
    assert ended.out == lines(3000, 5000)
    assert run("filter", "check", place, data=lines(4990, 5010)).out == lines(4990, 5000)
    told = json.loads(run("filter", "info", place, "--json").out)
    assert (told["count"], told["keys"]["from"], told["parameters"]["fpp"]) == (5000, "lines", 0.001)
    assert told["fpp_measured"]["low"] <= told["fpp_estimated"] <= told["fpp_measured"]["high"]
    assert 0 < told["slices"][0]["fill"] < 0.1
    assert f"newest of 1 slice: fill {told['slices'][0]['fill']:.3f}" in run("dedup", "--filter", place, data=b"").err
    assert b"5,000 keys" in run("filter", "info", place).out


def test_what_does_not_fit_is_refused_in_one_line(
    run: Commands, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("dedup", "--raw", "--filter", place, data=lines(0, 5)).code == 0
    run.refused("dedup", "--filter", place, "--fpp", "0.01", told=("--fpp 0.01", "fpp 0.001"))
    run.refused("dedup", "--filter", place, "--capacity", "5", told=("--capacity 5", "capacity 1048576"))
    run.refused("dedup", "--no-raw", "--filter", place, told=("holds raw lines, not URLs",))
    run.refused("dedup", "--filter", place, "--seen", "cuckoo", told=("--seen cuckoo",))
    run.refused("dedup", "--filter", place, "--hash", "mmh3", told=("--hash mmh3",))
    run.refused("dedup", "--producer", "x", told=("--producer applies only to a set on a server",))
    run.refused("dedup", "--module", told=("--module applies only",))
    run.refused("dedup", "--filter", place, "--producer", "", told=("1 to 100 characters",))
    run.refused("filter", "info", place + "-not", told=("no set at",))
    run.refused("filter", "pull", "a", "b", told=("a is not a valid set address",))
    run.refused("dedup", "--filter", place, "--secret-of", "x", told=("cannot read filter", "x"))
    run.refused("filter", "info", "redis://127.0.0.1:x/a", told=("invalid server address", "HOST:PORT...]/NAME"))
    (tmp_path / "other").write_text("ff" * 16)
    monkeypatch.setenv("CRAWLER_FILTER_SECRET_FILE", str(tmp_path / "other"))
    run.refused("dedup", "--filter", place, told=("created with another secret",))
    (tmp_path / "other").write_text("too short")
    run.refused("filter", "info", place, told=("32 hexadecimal digits",))
    monkeypatch.delenv("CRAWLER_FILTER_SECRET_FILE")
    run.refused("dedup", "--filter", place, told=("needs a secret",))


def test_from_a_local_filter_to_a_set_and_back(
    run: Commands, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CRAWLER_FILTER_SECRET_FILE")
    local, back = tmp_path / "local", tmp_path / "back"
    assert run("dedup", "--raw", "--filter", local, data=lines(0, 2000)).code == 0
    assert "2,000 keys pushed, 2,000 of them new" in run("filter", "push", local, place).err
    assert run("dedup", "--filter", place, "--secret-of", local, data=lines(1500, 2500)).out == lines(2000, 2500)
    assert "2,000 keys pushed, 0 of them new" in run("filter", "push", local, place).err
    assert run("filter", "pull", place, back, "--secret-of", local).code == 0
    assert run("filter", "check", back, data=lines(2400, 2600)).out == lines(2400, 2500)
    assert run("dedup", "--filter", back, data=lines(2400, 2600)).out == lines(2500, 2600)
    copy = f"{place}-copy"
    assert "2,600 keys pushed" in run("filter", "push", back, copy).err
    assert run("filter", "check", copy, "--secret-of", back, data=lines(0, 3000)).out == lines(0, 2600)
    run.refused("filter", "push", back, copy, told=("already exists",))
    (tmp_path / "list").write_bytes(lines(0, 10))
    assert run("filter", "build", tmp_path / "bloom", "--raw", "--from", tmp_path / "list").code == 0
    run.refused("filter", "push", tmp_path / "bloom", place, told=("has no digest file",))


def test_a_secret_that_is_named_comes_before_that_of_the_environment(run: Commands, place: str, tmp_path: Path) -> None:
    local = tmp_path / "local"
    assert run("dedup", "--raw", "--filter", local, data=lines(0, 20)).code == 0
    assert run("filter", "push", local, place).code == 0
    assert run("dedup", "--filter", place, "--secret-of", local, data=lines(10, 30)).out == lines(20, 30)
    run.refused("dedup", "--filter", place, told=("created with another secret",))


@pytest.mark.parametrize(
    "words",
    [
        ("build", "{set}", "--from", "{file}"),
        ("merge", "{file}-merged", "{set}", "{file}"),
        ("export", "{set}", "{file}-out", "--format", "redis"),
        ("push", "{set}", "{set}-copy"),
        ("pull", "{set}", "{set}"),
        ("info", "{set}", "--secret-of", "{set}"),
    ],
    ids=lambda words: words[0],
)
def test_a_set_where_a_file_is_needed_is_refused(run: Commands, tmp_path: Path, words: tuple[str, ...]) -> None:
    given = (word.format(set="redis://127.0.0.1:1/a", file=tmp_path / "file") for word in words)
    run.refused("filter", *given, told=("expected a file, not a set on a server",))


def test_a_push_that_was_killed_is_run_again(run: Commands, place: str, server: RedisServer, tmp_path: Path) -> None:
    assert run("dedup", "--raw", "--filter", place, data=lines(0, 100)).code == 0
    assert run("filter", "pull", place, tmp_path / "back").code == 0
    copy = f"{place}-copy"
    assert run("filter", "push", tmp_path / "back", copy).code == 0
    key = f"crawler:seen:{{{copy.rpartition('/')[2]}}}:set"
    server.say("SET", key, server.say("GET", key).replace(b'"ready"', b'"filling"'))
    run.refused("dedup", "--filter", copy, told=("is being filled by",))
    assert run("filter", "push", tmp_path / "back", copy).code == 0
    assert run("filter", "check", copy, data=lines(0, 110)).out == lines(0, 100)


def test_killed_while_it_prints_nothing_is_missing(run: Commands, place: str, tmp_path: Path) -> None:
    """Its lines do not fit into the pipe that nobody reads: it was told that they are new, and has not printed them."""
    data = lines(0, 20_000)
    (tmp_path / "input").write_bytes(data)
    words = [sys.executable, "-m", "crawler", "dedup", "--raw", "--filter", place, "--producer", "one"]
    with open(tmp_path / "input", "rb") as given:
        killed = subprocess.Popen(
            words, stdin=given, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert killed.stdout is not None
        wait_until(lambda: _held(run, place) == 20_000, "all lines are in the set")
        killed.kill()
        printed = killed.stdout.read()
        killed.wait()
        killed.stdout.close()
    assert len(printed) < len(data)
    assert run("dedup", "--raw", "--filter", place, "--producer", "two", data=data).out == b""
    again = run("dedup", "--raw", "--filter", place, "--producer", "one", data=data)
    assert again.out == data
    assert run("dedup", "--raw", "--filter", place, "--producer", "one", data=data).out == b""


def _held(run: Commands, place: str) -> int:
    ended = run("filter", "info", place, "--json")
    return int(json.loads(ended.out)["count"]) if ended.code == 0 else 0


def test_a_user_with_the_rights_that_the_page_names(
    run: Commands, place: str, server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = re.findall(r"\+[a-z|]+", page("format-shared.md"))
    server.say("ACL", "SETUSER", "few", "reset", "on", ">pass", "~crawler:seen:*", "-@all", *rights)
    monkeypatch.setenv("CRAWLER_ENGINE_USER", "few")
    monkeypatch.setenv("CRAWLER_ENGINE_PASSWORD", "pass")
    assert run("dedup", "--raw", "--filter", place, "--producer", "one", data=lines(0, 3000)).out == lines(0, 3000)
    assert run("filter", "info", place).code == 0
    assert run("filter", "pull", place, tmp_path / "back").code == 0
    assert run("filter", "push", tmp_path / "back", f"{place}-copy").code == 0
    server.say("ACL", "SETUSER", "few", "-setrange")
    ended = run("dedup", "--raw", "--filter", place, data=lines(3000, 3010))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, b"", 1)
    monkeypatch.setenv("CRAWLER_ENGINE_PASSWORD", "wrong")
    run.refused("dedup", "--raw", "--filter", place, told=("refused the login",))
    server.say("ACL", "DELUSER", "few")
