"""Which answers are stored as they came."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.base.settings import OutputSettings, Settings, SettingsError, settings_from
from crawler.url.scope import StoreChoice
from crawler.url.scope.rule_faults import literal_ranges, rule_faults

HREF = "http://a.test/x/y.png?z"


def wants(status: int = 200, kind: str | None = "image/png", href: str = HREF, **settings: Any) -> bool:
    chosen = {f"store_{key}": value for key, value in settings.items()}
    return StoreChoice.of(OutputSettings(**chosen)).wants(href, status, kind)


def test_by_default_every_answer_is() -> None:
    assert all(wants(status, kind) for status in (200, 301, 404, 503) for kind in ("text/html", None, "a/b"))


@pytest.mark.parametrize(
    ("types", "kind", "fits"),
    [
        (("image/png",), "image/png", True),
        (("IMAGE/PNG",), "image/png", True),
        (("image/png",), "image/jpeg", False),
        (("image/*",), "image/jpeg", True),
        (("image/*",), "imagery/x", False),
        (("*/*",), "a/b", True),
        (("text/html",), None, True),
        (("text/*", "image/png"), "image/png", True),
        (("image/*",), None, False),
    ],
)
def test_types(types: tuple[str, ...], kind: str | None, fits: bool) -> None:
    assert wants(kind=kind, types=types) is fits


@pytest.mark.parametrize(
    ("statuses", "status", "fits"),
    [(("200",), 200, True), (("200",), 201, False), (("2xx", "404"), 404, True), (("2xx",), 299, True)],
)
def test_statuses(statuses: tuple[str, ...], status: int, fits: bool) -> None:
    assert wants(status, statuses=statuses) is fits


def test_patterns_and_that_all_must_fit() -> None:
    assert wants(include=("/x/*",))
    assert not wants(include=("/y/*", "*.jpg"))
    assert not wants(exclude=("*.png{?z}",))
    assert wants(exclude=("*.png",), href="http://a.test/x/y.jpg")
    assert not wants(include=("/x/*",), exclude=("http://a.test/*",))
    assert wants(include=("/x/*",), types=("image/*",), statuses=("2xx",))
    assert not wants(404, include=("/x/*",), types=("image/*",), statuses=("2xx",))
    assert not wants(kind="text/html", include=("/x/*",), types=("image/*",), statuses=("2xx",))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("store_types", ["png"]),
        ("store_types", ["*/png"]),
        ("store_types", ["image/png; x"]),
        ("store_types", [""]),
        ("store_statuses", ["2x"]),
        ("store_statuses", ["600"]),
        ("store_statuses", ["20x"]),
        ("headers", ["Server: x"]),
        ("headers", [f"X-{number}" for number in range(33)]),
        ("fields", ["titel"]),
    ],
)
def test_what_cannot_be_meant_is_refused(key: str, value: list[str]) -> None:
    with pytest.raises(SettingsError, match=rf"some\.toml: output\.{key} |some\.toml: output\.{key}:"):
        settings_from({"output": {key: value}}, "some.toml")


def test_a_pattern_that_no_url_matches_is_named_by_its_place() -> None:
    settings = Settings(output=OutputSettings(store_include=("/ok", "x[")))
    stated = Settings(output=OutputSettings(store_exclude=("{2..1}",)))
    assert [fault.place for fault in rule_faults(stated)] == [("output", "store_exclude", 0)]
    assert not [fault for fault in rule_faults(settings) if fault.place[2] == 0]
    ranges = Settings(output=OutputSettings(store_include=("/page/[1-50]",)))
    assert [fault.place for fault in literal_ranges(ranges)] == [("output", "store_include", 0)]
