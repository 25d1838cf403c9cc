"""Workers have the package of the first process, wherever that is from."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

from crawler import __version__
from tests.cluster.chain import Chain
from tests.cluster.test_crawl_in_partitions import in_two, records
from tests.program import PATIENCE, ROOT

VERSION = "7.7.7"
# As the module that it takes the place of, but not for workers.
SHADOW = """\
import sys
if "work" in sys.argv:
    raise SystemExit("the worker took a module from the working directory")
exec(open({place!r}).read())
"""


def checkout(directory: Path) -> None:
    """A checkout whose package says that it is of another version, beside a file that is named as a library is."""
    package = directory / "crawler"
    package.mkdir(parents=True)
    for path in (ROOT / "crawler").iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (package / path.name).symlink_to(path)
    text = (ROOT / "crawler" / "__init__.py").read_text()
    assert __version__ in text
    (package / "__init__.py").write_text(text.replace(__version__, VERSION))
    library = Path(sysconfig.get_path("stdlib")) / "secrets.py"
    (directory / "secrets.py").write_text(SHADOW.format(place=str(library)))


def test_a_checkout_that_is_not_installed_crawls_in_partitions(tmp_path: Path) -> None:
    checkout(tmp_path / "checkout")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with Chain(2, 3) as chain:
        words = [sys.executable, "-m", "crawler", *chain.seeds, *in_two(tmp_path / "crawl")]
        ran = subprocess.run(
            words,
            check=False,
            cwd=tmp_path / "checkout",
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert records(tmp_path / "crawl") == Counter(dict.fromkeys(chain.pages, 1))
        assert VERSION in (tmp_path / "crawl" / "crawl.json").read_text()
        for path in tmp_path.glob("crawl/partitions/*/job.json"):
            assert VERSION in path.read_text(), "a worker has written it"
