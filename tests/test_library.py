"""What ``import crawler`` offers: the names that docs/reference/library.md calls stable, each example run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import crawler
from tests.documents import ROOT, page
from tests.jobs import stopped_job
from tests.site import Site, linked

EXAMPLES = re.findall(r"^```python\n(.*?)^```$", page("library.md"), re.MULTILINE | re.DOTALL)


def test_every_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) >= 5
    names: dict[str, object] = {}
    for number, example in enumerate(EXAMPLES):
        exec(compile(example, f"library.md, example {number}", "exec"), names)


def test_every_program_of_the_page_runs(tmp_path: Path) -> None:
    programs = dict(re.findall(r'^```python title="(.+?)"\n(.*?)^```$', page("library.md"), re.MULTILINE | re.DOTALL))
    pages = {"/": linked(["/archive/", "/gone"]), "/archive/": linked(["/gone", "/"])}
    with Site(pages) as site:
        data, printed = {}, {}
        for name, program in programs.items():
            changed = program.replace("https://example.org/", site.url("/")).replace(
                "delay=0.5", "allow_private=True, delay=0"
            )
            ran = subprocess.run(
                [sys.executable, "-c", changed], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
            )
            printed[name] = ran.stdout.splitlines()
            (job,) = re.findall(r'"(\w+)", seeds', program)
            data[name] = {record["url"]: record.get("data") for record in crawler.Job(tmp_path / job).records()}
        gone, home, archive = (site.url(path) for path in ("/gone", "/", "/archive/"))
        assert set(printed["titles.py"]) == {f"200 {url} page" for url in (home, archive)}
        assert set(data["titles.py"]) == {gone, home, archive}
        assert data["titles.py"][home] == {"words": 1}
        assert data["sizes.py"][home] == {"size": len(pages["/"])}
        assert sorted(printed["broken.py"]) == sorted(f"{gone} is broken (404), on {url}: x" for url in (home, archive))


def test_the_page_names_all_that_is_public() -> None:
    named = set(re.findall(r"^- `crawler\.(\w+)`:", page("library.md"), re.MULTILINE))
    assert named == set(crawler.__all__)
    assert {f"::: crawler.{name}" for name in named - {"__version__"}} == {
        line for line in page("api.md").splitlines() if line.startswith(":::")
    }
    assert not [name for name in named - {"__version__"} if f"\n    {name} " not in str(crawler.__doc__)]
    assert set(crawler.__all__) <= set(dir(crawler))
    assert crawler.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with pytest.raises(AttributeError, match="no attribute 'Crawler'"):
        crawler.Crawler  # noqa: B018


def loaded_by(code: str) -> set[str]:
    """The modules that are there after a program has run."""
    command = [sys.executable, "-c", f"{code}\nimport sys, json; print(json.dumps(list(sys.modules)))"]
    ran = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, timeout=60)
    return set(json.loads(ran.stdout))


def test_importing_the_package_is_cheap() -> None:
    modules = loaded_by("import crawler")
    assert [name for name in modules if name.startswith("crawler.")] == []
    assert not {"numpy", "rocksdict", "aiohttp", "asyncio"} & modules
    assert not {"numpy", "rocksdict", "aiohttp", "asyncio"} & loaded_by("import crawler; crawler.canonicalise")
    assert not {"aiohttp", "rich", "prometheus_client"} & loaded_by("import crawler; crawler.Frontier")


@pytest.mark.parametrize("text", ["mailto:a@b.test", "http://", "x"])
def test_what_is_no_url_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a URL"):
        crawler.canonicalise(text)


def test_a_job_of_a_crawl_is_read(tmp_path: Path) -> None:
    with stopped_job(tmp_path, 12) as made:
        job = crawler.Job(made.job)
        stats = job.stats()
        assert stats["pages_fetched"] == 12
        records = list(job.records())
        assert [record["outcome"] for record in records] == ["fetched"] * 12
        assert list(job.records("failed")) == []
        (host,) = job.hosts()
        assert (host["fetched"], host["pending"]) == (12, stats["urls_pending"])
        with pytest.raises(crawler.JobError, match="holds no crawl"):
            crawler.Job(tmp_path)
