"""``crawler config``: what ships with the program can be read and copied without a clone of the repository."""

from __future__ import annotations

from pathlib import Path

from tests.documents import ROOT
from tests.program import crawler

CONFIG = ROOT / "config"
NAMES = sorted(str(path.relative_to(CONFIG)) for path in CONFIG.rglob("*") if path.is_file())


def test_without_a_name_it_prints_the_commented_defaults() -> None:
    ran = crawler("config")
    assert (ran.code, ran.out, ran.err) == (0, (CONFIG / "default.toml").read_text("utf-8"), "")


def test_every_file_is_listed_and_can_be_printed() -> None:
    listed = crawler("config", "--list").out.splitlines()
    assert sorted(listed) == NAMES
    assert {"default.toml", "systemd/crawler@.service", "prometheus/alerts.yml", "grafana/crawler.json"} <= set(NAMES)
    assert crawler("config", "prometheus/alerts.yml").out == (CONFIG / "prometheus" / "alerts.yml").read_text("utf-8")


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    ran = crawler("config", "prometheus/alert.yml")
    assert (ran.code, ran.out) == (2, "")
    assert "'prometheus/alerts.yml'" in ran.err


def test_files_are_copied_and_never_overwritten(tmp_path: Path) -> None:
    ran = crawler("config", "--write", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert sorted(ran.out.splitlines()) == [str(tmp_path / name) for name in NAMES]
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (CONFIG / name).read_bytes()
    (tmp_path / "default.toml").write_text("# mine\n")
    (tmp_path / "grafana" / "crawler.json").unlink()
    again = crawler("config", "--write", tmp_path)
    assert (again.code, again.out) == (2, "")
    assert (tmp_path / "default.toml").read_text() == "# mine\n"
    assert not (tmp_path / "grafana" / "crawler.json").exists(), "all or none"
