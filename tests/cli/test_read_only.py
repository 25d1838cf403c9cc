"""Looking at a job on a read-only directory: it works, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.jobs import stopped_job
from tests.program import ROOT, as_anybody


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_looking_needs_no_writing(tmp_path: Path) -> None:
    with stopped_job(tmp_path, 5) as made:
        (made.job / "store" / "rocksdict-config.json").unlink()
        before = names(made.job)
        directories = [made.job, *(path for path in made.job.rglob("*") if path.is_dir())]
        for directory in directories:
            directory.chmod(0o555)
        try:
            for words in (("stats", made.job), ("verify", made.job), ("explain", made.job, made.site.url("/"))):
                ran = subprocess.run(
                    [sys.executable, "-m", "crawler", *map(str, words)],
                    capture_output=True,
                    cwd=ROOT,
                    preexec_fn=as_anybody,
                    check=False,
                )
                assert ran.returncode == 0, ran.stdout + ran.stderr
                assert ran.stderr == b""
        finally:
            for directory in directories:
                directory.chmod(0o755)
        assert names(made.job) == before
