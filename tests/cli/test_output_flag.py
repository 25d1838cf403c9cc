"""What the program says of ``--output``, and of libraries that its outputs need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from crawler.cli import main
from crawler.cli.options import output_names
from crawler.web.archive.gzip_member import slow_compression

KNOWN = "known: warc, links, text, bodies, structured, markdown, wacz, -"


@pytest.fixture
def seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seeds.txt").write_text("# none\n")  # whatever is good about the flags, the seeds are not
    return "seeds.txt"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["linsk"], f"argument --output: unknown 'linsk' (did you mean 'links'?); {KNOWN}"),
        (["LINKS"], f"argument --output: unknown 'LINKS' (did you mean 'links'?); {KNOWN}"),
        (["links,zip"], f"argument --output: unknown 'zip'; {KNOWN}"),
        (["pages"], "argument --output: pages.jsonl is always written: name what else is to be kept"),
        (["text,,links"], "argument --output: a name is missing"),
        (["text,"], "argument --output: a name is missing"),
        (["links", "text"], "commas separate the names of --output: --output links,text"),
        (["links,warc", "-", "text"], "commas separate the names of --output: --output links,warc,-,text"),
        (["links", "more"], "seeds file seeds.txt holds no URL"),
        (["links, bodies"], "seeds file seeds.txt holds no URL"),
        (["links,links"], "seeds file seeds.txt holds no URL"),
        ([""], "seeds file seeds.txt holds no URL"),
    ],
)
def test_what_is_wrong_with_it(seeds: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([seeds, "--output", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.removeprefix("crawler: error: ").startswith(said)


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
