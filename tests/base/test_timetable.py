"""When a crawl runs and when its rounds begin, by the clock on the wall."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import ScheduleSettings
from crawler.base.settings.timetable import Timetable

BERLIN = "Europe/Berlin"
ZONES = st.sampled_from([BERLIN, "America/St_Johns", "Australia/Lord_Howe", "UTC", None])
TIMES = st.sampled_from(["03:00", "02:30", "00:00", "23:59", "Mon 12:00", "Fri-Mon 02:15", "Sun 01:45"])


def at(text: str, fold: int = 0) -> float:
    """The time when clocks in Berlin show ``text``: for the first time, or (fold 1) again."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN), fold=fold).timestamp()


def table(began: float = 0.0, **settings: Any) -> Timetable:
    return Timetable(ScheduleSettings(**{"time_zone": BERLIN, **settings}), began)


def test_at_a_time_of_day() -> None:
    nightly = table(times=("03:00",))
    assert nightly.next_round(at("2026-06-10T02:59")) == at("2026-06-10T03:00")
    assert nightly.next_round(at("2026-06-10T03:00")) == at("2026-06-10T03:00")
    assert nightly.next_round(at("2026-06-10T03:00") + 1) == at("2026-06-11T03:00")
    twice = table(times=("18:30", "Mon-Fri 06:00"))
    assert twice.next_round(at("2026-06-12T07:00")) == at("2026-06-12T18:30"), "a Friday"
    assert twice.next_round(at("2026-06-12T19:00")) == at("2026-06-13T18:30"), "not on Saturday morning"
    weekly = table(times=("Mon 12:00",))
    assert weekly.next_round(at("2026-06-08T12:01")) == at("2026-06-15T12:00")


def test_when_clocks_are_set_forward() -> None:
    # 2026-03-29: 02:00 is followed by 03:00.
    assert table(times=("02:30",)).next_round(at("2026-03-29T00:00")) == at("2026-03-29T03:30")
    assert table(times=("02:30",)).next_round(at("2026-03-29T03:31")) == at("2026-03-30T02:30")
    assert at("2026-03-29T03:00") - at("2026-03-28T03:00") == 23 * 3_600
    assert table(times=("03:00",)).next_round(at("2026-03-28T03:01")) == at("2026-03-29T03:00")


def test_when_clocks_are_set_back() -> None:
    # 2026-10-25: 03:00 is followed by 02:00.
    first, second = at("2026-10-25T02:30"), at("2026-10-25T02:30", fold=1)
    assert second - first == 3_600
    assert table(times=("02:30",)).next_round(first - 60) == first
    assert table(times=("02:30",)).next_round(first + 60) == at("2026-10-26T02:30"), "once a day"


def test_every_so_many_hours_counts_from_the_begin_whatever_the_clock_shows() -> None:
    began = at("2026-03-28T17:55")
    often = table(began, every_hours=6.0)
    assert often.next_round(began + 1) == began + 6 * 3_600
    assert often.next_round(began + 6 * 3_600) == began + 6 * 3_600
    assert often.next_round(began + 13 * 3_600) == began + 18 * 3_600, "through the night of the change"


@given(
    st.lists(TIMES, min_size=1, max_size=3, unique=True).map(tuple),
    ZONES,
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),
    st.floats(0.0, 1.0),
)
def test_the_next_round_is_the_first_there_is(
    times: tuple[str, ...], zone: str | None, day: datetime, part: float
) -> None:
    now = day.replace(tzinfo=UTC).timestamp()
    given_times = table(times=times, time_zone=zone)
    found = given_times.next_round(now)
    assert now <= found <= now + timedelta(days=8).total_seconds()
    assert given_times.next_round(found) == found
    assert given_times.next_round(now + part * (found - now)) == found, "none between"
    shown = datetime.fromtimestamp(found, None if zone is None else ZoneInfo(zone))
    wanted = {tuple(map(int, time.rpartition(" ")[2].split(":"))) for time in times}
    shifted = {(hour, minute + more) for hour, minute in wanted for more in (30, 60)}
    around = {(hour + minute // 60, minute % 60) for hour, minute in shifted}
    assert (shown.hour, shown.minute) in wanted | around, "at its time, or as much later as the clock skipped"


@pytest.mark.parametrize(
    "keys", [{"times": ["24:00"]}, {"every_hours": 0}, {"every_hours": 1e9}, {"hours": ["22-6"]}, {"nightly": True}]
)
def test_settings_that_are_refused(keys: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=f"schedule.{next(iter(keys))}"):
        settings_from({"schedule": keys}, "crawl.toml")


def test_rounds_are_revisits_and_own_intervals_stay() -> None:
    assert settings_from({"schedule": {"times": ["03:00"]}}).recrawl.enabled
    assert not settings_from({"schedule": {"hours": ["22:00-06:00"]}}).recrawl.enabled
    own = {"enabled": True, "mean_interval": 7_200.0}
    assert settings_from({"schedule": {"times": ["03:00"]}, "recrawl": own}).recrawl.mean_interval == 7_200.0
