"""Only its owner may read what the program makes in a job: it holds a secret, and what it fetched is its user's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tests.program import crawler, running, wait_until
from tests.site import Site, tree

OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--quiet", "--dashboard", "0")
OFTEN = "[durability]\nsync_interval = 0.02\ncheckpoint_interval = 0.05\n"


def open_to_others(directory: Path) -> list[str]:
    """What somebody else could reach: a private directory hides all that is in it."""
    found = []
    for path in sorted(directory.iterdir()):
        if path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            found.append(path.name)
            found += [f"{path.name}/{name}" for name in (open_to_others(path) if path.is_dir() else [])]
    return found


def test_nobody_else_may_read_a_job_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "often.toml").write_text(OFTEN)
    ours = tmp_path / "ours"
    ours.mkdir(0o755)  # made by its user: the mode stays, and what is in it is private all the same
    ours.chmod(0o755)
    with Site(tree(1_000), latency=0.02) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/"))
        for job in (ours, tmp_path / "new"):
            words = (tmp_path / "seeds.txt", "--job", job, "--config", tmp_path / "often.toml", *OPTIONS)
            with running(*words, preexec_fn=lambda: os.umask(0) and None) as process:
                wait_until(lambda job=job: (job / "seen").is_dir() and any((job / "seen").iterdir()), "a generation")
                wait_until((job / "live.json").exists, "a crawl that says what it does")
                assert crawler("add", job, site.url("/")).code == 0
                assert open_to_others(job) == []
                process.kill()
                process.wait()
            assert {"job.json", "pages.jsonl", "lock", "store", "inbox", "dashboard-token"} <= {
                path.name for path in job.iterdir()
            }
            assert crawler("verify", job).code == 0
    assert ours.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    before = os.umask(0)
    try:
        assert crawler("backup", tmp_path / "new", tmp_path / "copies").code == 0
        assert crawler("restore", tmp_path / "copies", tmp_path / "again").code == 0
    finally:
        os.umask(before)
    for directory in (tmp_path / "copies", tmp_path / "again"):
        assert directory.stat().st_mode & 0o077 == 0
