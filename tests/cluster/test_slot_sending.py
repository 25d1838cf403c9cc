"""What an owner makes of what a replica says."""

from __future__ import annotations

import pickle

from msgspec.structs import replace

from crawler.cluster.slot_sending import AGAIN, COPY_AGAIN, SILENT, SlotSending
from crawler.job.partition.notes import decode_note, encode_note
from crawler.job.partition.replica_values import Being, ReplicaState, decode_replica_state, encode_value
from crawler.job.replica import START, Mark

LINE = 7
SAID = ReplicaState(0, 3, "home", 1, Being.WHOLE, LINE, 10, LINE, 8)


def slot() -> SlotSending:
    made = SlotSending(0, "home", 100.0)
    made.hear(SAID, 100.0)
    return made


def test_what_is_said_is_the_same_in_a_note_and_in_a_value() -> None:
    assert decode_note(encode_note(SAID)) == SAID == decode_replica_state(encode_value(SAID))
    for value in (None, b"", b"\xc1", encode_value([1, 2])):
        assert decode_replica_state(value) is None


def test_what_is_old_or_of_another_home_changes_nothing() -> None:
    one = slot()
    for old in (replace(SAID, number=1), replace(SAID, epoch=2, beats=9), replace(SAID, home="other", beats=2)):
        one.hear(old, 101.0)
        assert one.mark == Mark(LINE, 10)
    assert one.safe == Mark(LINE, 8)
    assert not one.is_silent(100.0 + SILENT - 0.1)
    assert one.is_silent(100.0 + SILENT)


def test_steps_go_on_after_what_was_sent_and_again_from_what_is_there() -> None:
    one = slot()
    assert one.next_after(one.mark) == Mark(LINE, 10)
    one.sends(Mark(LINE, 20), 1_000, 101.0)
    one.sends(Mark(LINE, 30), 500, 101.0)
    assert (one.next_after(one.mark), one.in_flight) == (Mark(LINE, 30), 1_500)
    one.hear(replace(SAID, beats=2, number=20), 102.0)
    assert one.in_flight == 500
    assert not one.is_stuck(102.0 + AGAIN - 0.1)
    assert one.is_stuck(102.0 + AGAIN)
    one.rewind()
    assert (one.next_after(one.mark), one.in_flight) == (Mark(LINE, 20), 0)


def test_who_begins_to_follow_gets_all_again() -> None:
    one = slot()
    one.sends(Mark(LINE, 30), 500, 101.0)
    one.hear(replace(SAID, epoch=4), 102.0)
    assert (one.next_after(one.mark), one.in_flight) == (Mark(LINE, 10), 0)


def test_a_replica_is_behind_since_the_log_had_what_it_lacks() -> None:
    one = slot()
    one.look(Mark(LINE, 10), 100.0)
    assert one.behind(105.0) == 0.0
    one.look(Mark(LINE, 12), 105.0)
    one.look(Mark(LINE, 15), 106.0)
    assert one.behind(107.0) == 2.0
    one.hear(replace(SAID, beats=2, number=12), 107.0)
    assert one.behind(108.0) == 2.0
    one.hear(replace(SAID, beats=3, number=15), 108.0)
    assert one.behind(109.0) == 0.0


def test_a_copy_that_broke_off_waits_longer_each_time() -> None:
    one = SlotSending(0, "home", 0.0)
    assert one.mark == one.safe == START
    waits = []
    for _ in range(6):
        one.broke_off(0.0)
        waits.append(one.copy_at)
    assert waits[0] == COPY_AGAIN[0]
    assert waits == sorted(waits)
    assert waits[-1] == COPY_AGAIN[1]
    one.copied()
    one.broke_off(0.0)
    assert one.copy_at == COPY_AGAIN[0]


def test_a_replica_that_is_behind_for_days_costs_no_memory() -> None:
    one = slot()
    for second in range(1, 100_001):
        one.look(Mark(LINE, 10 + second), 100.0 + second)
    assert one.behind(100_100.0) == 100_100.0 - 101.0
    one.hear(replace(SAID, beats=2, number=10 + 90_000), 100_100.0)
    assert 9_999.0 <= one.behind(100_100.0) < 100_000.0, "never less than it is"
    assert len(pickle.dumps(one)) < 64 * 1024
