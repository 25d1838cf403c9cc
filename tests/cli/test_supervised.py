"""A crawl under a service manager: what it is told, and the unit that is shipped."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from crawler.cli import command_parser
from crawler.cli.exit_codes import Exit
from crawler.service.progress.supervisor import Supervisor
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import WORDS, begun
from tests.needs import need
from tests.program import ROOT, running
from tests.site import Site, tree


def heard(listening: socket.socket) -> list[str]:
    return listening.recv(4_096).decode().split("\n")


def test_the_service_manager_is_told_when_it_begins_how_it_goes_and_when_it_ends(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening, Site(tree(500), latency=0.2) as site:
        listening.bind(name)
        listening.settimeout(30)
        (tmp_path / "seeds.txt").write_text(site.url("/"))
        words = (tmp_path / "seeds.txt", "--job", tmp_path / "job", "--allow-private", "--delay", "0", "--quiet")
        with running(*words, env={**os.environ, "NOTIFY_SOCKET": name}) as process:
            first = heard(listening)
            assert first[:2] == ["READY=1", "WATCHDOG=1"]
            assert first[2].startswith("STATUS=")
            second, third = heard(listening), heard(listening)
            assert [line.partition("=")[0] for line in second] == ["WATCHDOG", "STATUS"]
            assert "pages" in third[1]
            process.send_signal(signal.SIGTERM)
            while "STOPPING=1" not in heard(listening):
                assert process.poll() is None
            assert process.wait() == 130


@pytest.mark.parametrize("abstract", [False, True], ids=["a file", "an abstract name"])
def test_a_service_manager_that_is_gone_is_told_nothing_and_that_is_no_error(tmp_path: Path, abstract: bool) -> None:
    name = f"\0{tmp_path}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        listening.settimeout(30)
        supervisor = Supervisor({"NOTIFY_SOCKET": name.replace("\0", "@")})
        supervisor.alive("one page", stopping=False)
        assert heard(listening) == ["READY=1", "WATCHDOG=1", "STATUS=one page"]
        supervisor.alive("two pages", stopping=True)
        assert heard(listening) == ["WATCHDOG=1", "STATUS=two pages", "STOPPING=1"]
        for _ in range(1_000):  # more than the kernel keeps for one that does not listen
            supervisor.alive("too busy", stopping=True)
    supervisor.alive("gone", stopping=True)
    if not abstract:
        Path(name).unlink()
        supervisor.alive("without a trace", stopping=True)
    supervisor.close()
    Supervisor({}).alive("nobody asked", stopping=False)


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (ROOT / "config" / "systemd" / "crawler@.service").read_text()
    assert text.count("/usr/local/bin/crawler ") == 2
    (reload,) = re.findall(r"^ExecReload=\S+ (.*)$", text, re.MULTILINE)
    assert str(command_parser("reload").parse_args(shlex.split(reload)).job) == "/var/lib/crawler/%i"
    (command_line,) = re.findall(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)
    given = command_parser("crawl").parse_args(["crawl", *shlex.split(command_line)])
    assert (given.seeds, str(given.job), given.quiet) == (["/etc/crawler/%i/seeds.txt"], "/var/lib/crawler/%i", True)
    _verify(tmp_path / "crawler@.service", text)


def test_systemd_understands_the_unit_of_a_worker(tmp_path: Path) -> None:
    text = (ROOT / "config" / "systemd" / "crawler-worker@.service").read_text()
    (command_line,) = re.findall(r"^ExecStart=/usr/local/bin/crawler (.*)$", text, re.MULTILINE)
    given = command_parser("work").parse_args(shlex.split(command_line))
    assert (given.store, str(given.dir), given.quiet) == ("${STORE}", "${DIRECTORY}", True)
    assert re.findall(r"^Environment=(.*)$", text, re.MULTILINE) == ["DIRECTORY=/var/lib/crawler/%i"]
    (normal,) = re.findall(r"^SuccessExitStatus=(.*)$", text, re.MULTILINE)
    assert {int(word) for word in normal.split()} == {Exit.LIMIT, Exit.INTERRUPTED}
    _verify(tmp_path / "crawler-worker@.service", text)


def _verify(path: Path, text: str) -> None:
    path.write_text(text.replace("/usr/local/bin/crawler", "/bin/true"))
    command = [need("systemd-analyze", "systemd"), "verify", str(path)]
    ran = subprocess.run(command, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_a_worker_tells_the_service_manager_of_itself_not_of_its_partitions(tmp_path: Path) -> None:
    directory, name = tmp_path / "crawl", str(tmp_path / "notify")
    words = ("--job", directory, *WORDS[:-1], "16", "--partitions", "1", "--rate", "20", "--quiet")
    at = ("--engine", f"unix:{directory / 'carrier.sock'}", "--crawl", "crawl", "--dir", directory)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        Chain(12, 40, 0.1) as chain,
        begun(chain, *words) as first,
    ):
        listening.bind(name)
        listening.settimeout(30)
        with running("work", *at, "--quiet", env={**os.environ, "NOTIFY_SOCKET": name}) as worker:
            told = heard(listening)
            while not re.fullmatch(r"STATUS=\d+ pages, ([2-9]|1\d) partitions", told[-1]):
                assert "STOPPING=1" not in told
                told += heard(listening)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait() == 130
            listening.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    told += heard(listening)
        first.kill()
    assert (told.count("READY=1"), told.count("STOPPING=1")) == (1, 1)
