"""A worker that begins removes what killed ones left of copies, unless another one works with the directory."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import PIPE, Popen

from crawler.cluster.drain_file import at_work, is_at_work
from crawler.job.crawl_file import CRAWL

BESIDE = """
import sys
from pathlib import Path
from crawler.cluster.drain_file import at_work
with at_work(Path(sys.argv[1])):
    print("works", flush=True)
    sys.stdin.read()
"""


def test_only_who_is_alone_removes_what_is_left_of_copies(tmp_path: Path) -> None:
    (tmp_path / CRAWL).touch()
    left = [tmp_path / "replicas" / name for name in ("07.new", "07.old", "06.gone")]
    (tmp_path / "replicas" / "06").mkdir(parents=True)
    with Popen([sys.executable, "-c", BESIDE, str(tmp_path)], stdin=PIPE, stdout=PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"works\n"
        for path in left:
            path.mkdir()
        with at_work(tmp_path):
            assert all(path.is_dir() for path in left), "the other one may be about to write them"
        other.stdin.close()
    with at_work(tmp_path):
        assert is_at_work(tmp_path)
        assert [path.name for path in (tmp_path / "replicas").iterdir()] == ["06"]
    assert not is_at_work(tmp_path)
