"""Which answers are stored as they came."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import OutputSettings
from crawler.url.scope.store_choice import StoreChoice

HREF = "http://a.test/x/y.png?z"


def wants(status: int = 200, kind: str | None = "image/png", href: str = HREF, **settings: Any) -> bool:
    chosen = {f"store_{key}": value for key, value in settings.items()}
    return StoreChoice.of(OutputSettings(**chosen)).wants(href, status, kind)


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
        ("store_types", ["*/png"]),
        ("store_statuses", ["600"]),
        ("headers", [f"X-{number}" for number in range(33)]),
        ("fields", ["titel"]),
    ],
)
def test_what_cannot_be_meant_is_refused(key: str, value: list[str]) -> None:
    with pytest.raises(SettingsError, match=key):
        settings_from({"output": {key: value}}, "some.toml")
