"""What the program says of ``--output``, and of libraries that its outputs need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from crawler.cli import main
from crawler.cli.options import output_names
from crawler.web.archive.gzip_member import slow_compression


@pytest.fixture
def seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seeds.txt").write_text("# none\n")  # whatever is good about the flags, the seeds are not
    return "seeds.txt"


def test_a_name_counts_once_and_no_name_keeps_nothing() -> None:
    assert output_names("text, links,text") == ["text", "links"]
    assert output_names("") == []


def test_a_missing_library_is_named(
    seeds: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.toml").write_text('[text]\nextractor = "trafilatura"\n')
    for name in ("pyarrow", "trafilatura"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    for words, said in (
        (["--config", "c.toml"], "text.extractor trafilatura needs trafilatura: pip install trafilatura"),
        (["--parquet", "p"], "an export to Parquet needs pyarrow: pip install pyarrow"),
    ):
        assert main([seeds, *words]) == 2
        assert capsys.readouterr().err == f"crawler: error: {said}\n"


def test_without_isal_a_line_says_what_the_archive_costs(
    seeds: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slow_compression() is None
    monkeypatch.setitem(sys.modules, "isal", None)
    main([seeds, "--output", "links"])
    assert "isal" not in capsys.readouterr().err
    main([seeds, "--output", "warc"])
    _warning, _ = capsys.readouterr().err.splitlines()
