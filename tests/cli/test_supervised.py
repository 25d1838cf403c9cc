"""A crawl under a service manager: what it is told, and the unit that is shipped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.needs import need
from tests.site import ROOT, Site, running, tree

OPTIONS = ("--allow-private", "--delay", "0", "--quiet")


def heard(listening: socket.socket) -> list[str]:
    return listening.recv(4_096).decode().split("\n")


@pytest.mark.parametrize("abstract", [False, True], ids=["a file", "an abstract name"])
def test_the_service_manager_is_told_when_it_begins_how_it_goes_and_when_it_ends(
    tmp_path: Path, abstract: bool
) -> None:
    name = f"\0{tmp_path}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening, Site(tree(500), latency=0.2) as site:
        listening.bind(name)
        listening.settimeout(30)
        (tmp_path / "seeds.txt").write_text(site.url("/"))
        words = (tmp_path / "seeds.txt", "--job", tmp_path / "job", *OPTIONS)
        with running(*words, env={**os.environ, "NOTIFY_SOCKET": name.replace("\0", "@")}) as process:
            first = heard(listening)
            assert first[:2] == ["READY=1", "WATCHDOG=1"]
            assert first[2].startswith("STATUS=")
            began = time.monotonic()
            second, third = heard(listening), heard(listening)
            assert [line.partition("=")[0] for line in second] == ["WATCHDOG", "STATUS"]
            assert "pages" in third[1]
            assert time.monotonic() - began > 1, "once a second"
            process.send_signal(signal.SIGSTOP)
            listening.settimeout(2.5)
            with pytest.raises(TimeoutError):  # noqa: PT012 (one that was under way may still come)
                heard(listening)
                heard(listening)
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            listening.settimeout(30)
            while "STOPPING=1" not in heard(listening):
                assert process.poll() is None
            assert process.wait(30) == 130


def test_a_service_manager_that_is_gone_does_not_stop_the_crawl(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening, Site(tree(40), latency=0.05) as site:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(30)
        (tmp_path / "seeds.txt").write_text(site.url("/"))
        words = (tmp_path / "seeds.txt", "--job", tmp_path / "job", *OPTIONS)
        with running(*words, env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}) as process:
            heard(listening)
            listening.close()
            assert process.wait(60) == 0
            assert process.stderr.read() == b""


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (ROOT / "config" / "systemd" / "crawler@.service").read_text()
    assert text.count("/usr/local/bin/crawler") == 1
    (tmp_path / "crawler@.service").write_text(text.replace("/usr/local/bin/crawler", "/bin/true"))
    command = [need("systemd-analyze", "systemd"), "verify", str(tmp_path / "crawler@.service")]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
