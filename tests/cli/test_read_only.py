"""Looking at a job on a read-only directory: it works, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.jobs import stopped_job
from tests.program import ROOT, as_anybody


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def as_anybody_does(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "crawler", *map(str, words)]
    return subprocess.run(command, capture_output=True, cwd=ROOT, preexec_fn=as_anybody, check=False)


def test_looking_needs_no_writing(tmp_path: Path) -> None:
    with stopped_job(tmp_path, 5) as made:
        (made.job / "store" / "rocksdict-config.json").unlink()
        before = names(made.job)
        directories = [made.job, *(path for path in made.job.rglob("*") if path.is_dir())]
        for directory in directories:
            directory.chmod(0o555)
        try:
            for words in (("stats", made.job), ("verify", made.job), ("explain", made.job, made.site.url("/"))):
                ran = as_anybody_does(*words)
                assert ran.returncode == 0, ran.stdout + ran.stderr
                assert ran.stderr == b""
            words = ("crawl", made.site.url("/"), "--job", made.job, "--allow-private")
            ran = as_anybody_does(*words)
            assert (ran.returncode, ran.stdout) == (1, b"")
            assert str(made.job) in ran.stderr.decode()
            assert b"progress is saved" not in ran.stderr
        finally:
            for directory in directories:
                directory.chmod(0o755)
        assert names(made.job) == before
