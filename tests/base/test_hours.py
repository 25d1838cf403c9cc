"""Windows of time in which hosts may be asked, by the clock on the wall."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.hours import Hours, HoursError
from crawler.base.settings.load import SettingsError, settings_from

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = Hours(("22:00-06:00",), "Europe/Berlin")


def at(text: str, fold: int = 0) -> float:
    """The time when clocks in Berlin show ``text``: for the first time, or (fold 1) again."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        ("2026-06-10T12:00", "2026-06-10T22:00"),
        ("2026-06-10T21:59:59", "2026-06-10T22:00"),
        ("2026-06-10T22:00", None),
        ("2026-06-11T00:00", None),
        ("2026-06-11T05:59:59", None),
        ("2026-06-11T06:00", "2026-06-11T22:00"),
    ],
)
def test_nights_only(now: str, opens: str | None) -> None:
    assert NIGHTS.opens(at(now)) == at(now if opens is None else opens)


def test_days_of_the_week() -> None:
    weekend = Hours(("Sat-Sun 00:00-24:00",), "Europe/Berlin")
    assert weekend.opens(at("2026-06-10T12:00")) == at("2026-06-13T00:00"), "a Wednesday"
    assert weekend.is_open(at("2026-06-14T23:59:59"))
    assert weekend.opens(at("2026-06-15T00:00")) == at("2026-06-20T00:00")
    friday = Hours(("Fri 22:00-06:00",), "Europe/Berlin")
    assert friday.is_open(at("2026-06-13T05:00")), "the night belongs to the day on which it begins"
    assert not friday.is_open(at("2026-06-12T05:00"))
    around = Hours(("Sat-Mon 08:00-09:00",), "Europe/Berlin")
    assert [around.is_open(at(f"2026-06-{day}T08:30")) for day in range(12, 17)] == [False, True, True, True, False]


def test_when_clocks_are_set_forward() -> None:
    # 2026-03-29: 02:00 is followed by 03:00.
    gap = Hours(("02:15-03:30",), "Europe/Berlin")
    assert gap.opens(at("2026-03-29T01:00")) == at("2026-03-29T03:00"), "what is left of the window"
    lost = Hours(("02:15-02:45",), "Europe/Berlin")
    assert lost.opens(at("2026-03-29T01:00")) == at("2026-03-30T02:15"), "there is no such time on that day"
    assert NIGHTS.opens(at("2026-03-29T12:00")) == at("2026-03-29T22:00")


def test_when_clocks_are_set_back() -> None:
    # 2026-10-25: 03:00 is followed by 02:00.
    twice = Hours(("02:15-02:45",), "Europe/Berlin")
    first, second = at("2026-10-25T02:15"), at("2026-10-25T02:15", fold=1)
    assert second - first == 3_600
    assert twice.opens(at("2026-10-25T01:00")) == first
    assert twice.opens(at("2026-10-25T02:45")) == second, "the clock shows it again"
    assert twice.opens(second + 60 * 30) == at("2026-10-26T02:15")


WINDOWS = st.sampled_from(["22:00-06:00", "12:00-12:01", "Mon 09:00-17:00", "Fri-Mon 23:30-00:15", "02:15-02:45"])


@given(
    st.lists(WINDOWS, min_size=1, max_size=2, unique=True).map(tuple),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "UTC", None]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),
)
def test_it_opens_at_the_first_minute_that_is_open(windows: tuple[str, ...], zone: str | None, day: datetime) -> None:
    now = day.replace(tzinfo=UTC).timestamp()
    hours = Hours(windows, zone)
    opens = hours.opens(now)
    assert hours.is_open(opens)
    assert hours.opens(opens) == opens
    if opens > now:
        assert not hours.is_open(now)
        assert opens % 60 == 0
        assert not hours.is_open(opens - 0.5)
        assert Hours(windows, zone).opens(now + (opens - now) * 0.5) == opens


@pytest.mark.parametrize(
    "keys", [{"hours": ["22:00-25:00"]}, {"hours": ["08:00-08:00"]}, {"time_zone": "../etc/passwd"}]
)
def test_settings_that_are_refused(keys: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=f"politeness.{next(iter(keys))}"):
        settings_from({"politeness": keys}, "crawl.toml")
    with pytest.raises(HoursError):
        Hours(("x",), None)
