"""A crawl without what only Linux has: the program runs, and a kill costs nothing. It is no Mac: see
``tests/like_macos.py``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

import pytest

from tests import like_macos
from tests.documents import ROOT
from tests.program import wait_until
from tests.site import Site, tree

PAGES = 40


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that pretends, and so do those that it starts."""
    home = tmp_path_factory.mktemp("macos")
    venv.create(home, symlinks=True)
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    shutil.copy(like_macos.__file__, packages / "sitecustomize.py")
    (packages / "all.pth").write_text("\n".join([str(ROOT), *(path for path in sys.path if path)]))
    return home / "bin" / "python"


def test_what_only_linux_has_is_missing(python: Path) -> None:
    tried = "import os, socket, ctypes; ctypes.CDLL(None).prctl"
    for words in (["-I", "-c", tried], ["-c", "open('/proc/meminfo')"], ["-c", "import os; os.sched_getaffinity"]):
        assert subprocess.run([python, *words], check=False, capture_output=True).returncode == 1


def test_a_killed_crawl_resumes(python: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    with Site(tree(PAGES), latency=0.02) as site:
        words = [python, "-m", "crawler", site.url("/"), "--job", job, "--allow-private", "--delay=0", "--quiet"]
        words += ["--output=text,markdown", "--dashboard=0"]
        with subprocess.Popen(words, env=environment, cwd=tmp_path, stderr=subprocess.PIPE) as process:
            records = job / "pages.jsonl"
            wait_until(lambda: records.exists() and records.stat().st_size > 1_000, "pages are fetched")
            process.kill()
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = Counter(json.loads(line)["url"] for line in records.read_text().splitlines())
    assert found == Counter({site.url(path): 1 for path in tree(PAGES)})
    assert len(list((job / "markdown").rglob("*.md"))) == PAGES
