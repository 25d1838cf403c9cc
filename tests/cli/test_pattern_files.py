"""Patterns from files: which settings they become, and how a fault in one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.base.settings.load import settings_from
from crawler.cli.exit_codes import UsageError
from crawler.cli.options import lay_flags_over
from crawler.url.scope.rule_faults import rule_faults


def test_each_line_of_a_file_is_a_pattern(tmp_path: Path) -> None:
    config = tmp_path / "crawl.toml"
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "no.txt").write_text("# print\n/print/*\n\n  {?replytocom}\n", "utf-8-sig")
    config.write_text('[scope]\nexclude = [\n  "*.pdf",\n  "@lists/no.txt",\n  "bad",\n]\n')
    tables, source = lay_flags_over(config, {})
    settings = settings_from(tables, source)
    assert settings.scope.exclude == ("*.pdf", "/print/*", "{?replytocom}", "bad")
    (fault,) = rule_faults(settings)
    assert source.at(*fault.place) == f"{config}, line 5"
    assert source.at("scope", "exclude", 1) == f"{tmp_path / 'lists' / 'no.txt'}, line 2"
    assert source.at("scope", "exclude", 2) == f"{tmp_path / 'lists' / 'no.txt'}, line 4"


def test_the_file_of_a_flag_is_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("yes.txt").write_text("/a/*\n/{5..1}\n")
    Path("crawl.toml").write_text('[scope]\ninclude = ["@gone.txt"]\n[[priority]]\nclass = 1\npattern = "/b"\n')
    given = {"--include": ("scope", "include", ["*.html", "@yes.txt"])}
    tables, source = lay_flags_over(Path("crawl.toml"), given)
    settings = settings_from(tables, source)
    assert settings.scope.include == ("*.html", "/a/*", "/{5..1}")
    assert [source.at(*fault.place) for fault in rule_faults(settings)] == ["yes.txt, line 2"]
    assert source.at("priority", 0, "pattern") == "crawl.toml, line 5"
    assert source.at("scope", "include", 0) == "command line, --include"


def test_the_tables_of_sites_take_files_too(tmp_path: Path) -> None:
    config = tmp_path / "crawl.toml"
    (tmp_path / "no.txt").write_text("/print/*\nbad\n")
    config.write_text('[[site]]\nmatch = "h.test"\nexclude = ["@no.txt"]\n')
    tables, source = lay_flags_over(config, {})
    settings = settings_from(tables, source)
    assert settings.site.tables[0].exclude == ("/print/*", "bad")
    (fault,) = rule_faults(settings)
    assert source.at(*fault.place) == f"{tmp_path / 'no.txt'}, line 2"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "line 2: cannot read the patterns in"),
        (b"# nothing\n", "has no pattern"),
        (b"/a\n/\xff\n", "not UTF-8"),
        (b"/a\n@more.txt\n", "line 2: '@more.txt': a pattern file cannot name another file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    config = tmp_path / "crawl.toml"
    config.write_text('[scope]\nexclude = ["@no.txt"]\n')
    if content is not None:
        (tmp_path / "no.txt").write_bytes(content)
    with pytest.raises(UsageError) as error:
        lay_flags_over(config, {})
    assert words in str(error.value)
