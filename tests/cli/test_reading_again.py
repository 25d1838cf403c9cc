"""A running crawl reads its configuration again: it never waits for the writer of a pipe."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from crawler.base.settings.parts import CrawlSettings
from crawler.cli import command_parser
from crawler.cli.crawl import build_settings, read_again
from crawler.service.reloading import ConfigurationError


def crawl_with(config: Path) -> argparse.Namespace:
    job = config.parent / "job"
    return command_parser("crawl").parse_args(["crawl", "seeds.txt", "--job", str(job), "--config", str(config)])


def test_a_configuration_that_has_become_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    config = tmp_path / "crawl.toml"
    config.write_text("[crawl]\nmax_depth = 3\n")
    assert read_again(crawl_with(config)).crawl.max_depth == 3
    config.unlink()
    os.mkfifo(config)
    with pytest.raises(ConfigurationError) as error:
        read_again(crawl_with(config))
    assert str(error.value) == f"cannot read configuration file {config}: it is not a regular file"


def test_an_empty_configuration_is_refused_and_one_of_comments_is_not(tmp_path: Path) -> None:
    config = tmp_path / "crawl.toml"
    for empty in ("", " \n"):
        config.write_text(empty)
        with pytest.raises(ConfigurationError):
            read_again(crawl_with(config))
        assert build_settings(crawl_with(config)).crawl == CrawlSettings(), "a crawl may begin with it"
    config.write_text("# the defaults\n")
    assert read_again(crawl_with(config)).crawl == CrawlSettings()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[scope]\nexclude = [\n"@PIPE",\n]', "crawl.toml, line 3: cannot read the patterns in "),
        ('[[site]]\nmatch = "https://h.test"\nlogin = "file:PIPE"', "site https://h.test: login: cannot read "),
        ('[fetch]\nproxy = "http://p.test"\nproxy_login = "file:PIPE"', "fetch.proxy_login: cannot read "),
        ('[fetch]\nca_file = "PIPE"', "fetch.ca_file: cannot read "),
        ('[dashboard]\nlisten = "127.0.0.1:0"\ntoken_file = "PIPE"', "cannot read the dashboard's token file "),
    ],
)
def test_no_file_that_it_names_may_be_a_pipe(tmp_path: Path, text: str, place: str) -> None:
    pipe, config = tmp_path / "pipe", tmp_path / "crawl.toml"
    os.mkfifo(pipe)
    config.write_text(text.replace("PIPE", str(pipe)))
    with pytest.raises(ConfigurationError) as error:
        read_again(crawl_with(config))
    assert f"{place}{pipe}: it is not a regular file" in str(error.value)


def test_a_crawl_may_begin_with_a_pipe(tmp_path: Path) -> None:
    config = tmp_path / "crawl.toml"
    reading, writing = os.pipe()
    os.write(writing, b"[crawl]\nmax_depth = 4\n")
    os.close(writing)
    config.symlink_to(f"/dev/fd/{reading}")
    try:
        assert build_settings(crawl_with(config)).crawl.max_depth == 4
    finally:
        os.close(reading)
