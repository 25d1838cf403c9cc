"""The program and what is around it: Ctrl-C at any moment, readers that leave, closed streams, odd arguments."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import ROOT, running, wait_until
from tests.site import Site, tree

OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4")
QUICK = "[durability]\nsync_interval = 0.02\ncheckpoint_interval = 0.05\n"


def rows(job: Path) -> list[str]:
    return sorted(json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines())


@pytest.mark.parametrize("shown", [(), ("--progress",), ("--quiet",)])
def test_a_crawl_goes_on_when_nobody_reads_what_it_says(tmp_path: Path, shown: tuple[str, ...]) -> None:
    (tmp_path / "quick.toml").write_text(QUICK)
    end, begin = os.pipe()
    os.close(end)
    with Site(tree(100), latency=0.03) as site:
        (tmp_path / "seeds.txt").write_text(f"no url\n{site.url('/')}\n")
        words = ("--job", tmp_path / "job", "--config", tmp_path / "quick.toml", *OPTIONS, *shown)
        ran = subprocess.run(
            [sys.executable, "-m", "crawler", str(tmp_path / "seeds.txt"), *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=begin,
            cwd=ROOT,
            check=False,
        )
        os.close(begin)
        assert ran.returncode == 0
        assert rows(tmp_path / "job") == sorted(site.url(path) for path in tree(100))


def test_bad_usage_is_exit_2_also_when_nobody_reads_why() -> None:
    end, begin = os.pipe()
    os.close(end)
    ran = subprocess.run([sys.executable, "-m", "crawler", "stat"], stderr=begin, cwd=ROOT, check=False)
    os.close(begin)
    assert ran.returncode == 2


def test_a_terminal_that_is_closed_does_not_end_the_crawl(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with Site(tree(100), latency=0.03) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        process = subprocess.Popen(
            [sys.executable, "-m", "crawler", tmp_path / "seeds.txt", "--job", tmp_path / "job", *OPTIONS],
            stdin=subprocess.DEVNULL,
            stderr=theirs,
            cwd=ROOT,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(theirs)
        assert os.read(ours, 1), "the view is drawn"
        os.close(ours)
        assert process.wait() == 0
        assert rows(tmp_path / "job") == sorted(site.url(path) for path in tree(100))


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    with Site(tree(20)) as site:
        (tmp_path / "seeds.txt").write_text(f"{site.url('/')}\nno url\n")
        words = [tmp_path / "seeds.txt", "--job", tmp_path / "job", *OPTIONS]
        command = " ".join([sys.executable, "-m", "crawler", *map(str, words)])
        ran = subprocess.run(f"exec {command} 0<&- 1>&- 2>&-", shell=True, cwd=ROOT, check=False)
        assert ran.returncode == 0
        assert rows(tmp_path / "job") == sorted(site.url(path) for path in tree(20))
        files = [path for path in (tmp_path / "job").rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if b"seed skipped" in path.read_bytes()]
        ran = subprocess.run(
            f"exec {sys.executable} -m crawler - --job {tmp_path}/none 0<&-",
            shell=True,
            cwd=ROOT,
            check=False,
            stderr=subprocess.PIPE,
        )
        assert (ran.returncode, b"standard input holds no URL" in ran.stderr) == (2, True)


@pytest.mark.parametrize("quiet", [False, True])
def test_an_interrupt_while_the_program_loads_is_one_line(tmp_path: Path, quiet: bool) -> None:
    # In place of a module that the program needs: one that is never done loading.
    (tmp_path / "selectolax.py").write_text(f"import time\nopen({str(tmp_path / 'loading')!r}, 'w')\ntime.sleep(60)\n")
    words = ("crawl", "-", *(["--quiet"] if quiet else []))
    with running(*words, env={**os.environ, "PYTHONPATH": str(tmp_path)}) as process:
        wait_until((tmp_path / "loading").exists, "the program loads")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        said = process.stderr.read()
        assert said == b"" if quiet else re.fullmatch(rb"crawler: interrupted.*\n", said)


def test_an_interrupt_before_the_first_seed_begins_nothing(tmp_path: Path) -> None:
    with running("-", "--job", tmp_path / "job", "--quiet", stdin=subprocess.PIPE) as process:
        wait_until(lambda: _threads(process.pid) > 1, "standard input is read")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b""
    assert not (tmp_path / "job").exists()


def _threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))
