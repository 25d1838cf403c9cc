"""One behaviour suite for every kind of seen-set, the exact one among them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.filters import DIGEST_BYTES, digest_keys, read_seen, write_seen
from crawler.settings import SEEN_KINDS
from tests.filters.kinds import KINDS_AND_EXACT, MAKERS, Subject, told, urls

every_kind = pytest.mark.parametrize("name", KINDS_AND_EXACT)
of_digests = pytest.mark.parametrize("name", MAKERS)
batches = st.lists(st.lists(st.integers(0, 500).map(str), max_size=60), max_size=10)


def test_every_kind_is_in_the_suite() -> None:
    assert {Subject(name).seen.kind for name in KINDS_AND_EXACT} == set(SEEN_KINDS)


@every_kind
@settings(max_examples=40)
@given(added=batches)
def test_no_key_is_ever_denied(name: str, added: list[list[str]]) -> None:
    seen = Subject(name).seen
    known: set[str] = set()
    new = 0
    for batch in added:
        fresh = seen.add_many(batch)
        firsts = [at for at, key in enumerate(batch) if key not in known and key not in batch[:at]]
        assert fresh == sorted(set(fresh))
        assert set(fresh) <= set(firsts)
        if name == "exact":
            assert fresh == firsts
        known.update(batch)
        new += len(fresh)
        assert all(seen.contains_many(batch))
    assert all(seen.contains_many(sorted(known)))
    assert all(key in seen for key in list(known)[:5])
    assert len(seen) == new


@of_digests
@settings(max_examples=25)
@given(keys=st.lists(st.integers(0, 3000).map(str), max_size=200, unique=True))
def test_one_by_one_gives_the_same_answers_as_in_batches(name: str, keys: list[str]) -> None:
    whole, single = MAKERS[name](), MAKERS[name]()
    digests = digest_keys(keys)
    whole.restore(digests)
    for at in range(0, len(digests), DIGEST_BYTES):
        single.restore(digests[at : at + DIGEST_BYTES])
    probe = digest_keys([str(number) for number in range(0, 6000, 7)])
    answers = whole.contains_digests(probe)
    assert single.contains_digests(probe) == answers
    one_by_one = [probe[at : at + DIGEST_BYTES] for at in range(0, len(probe), DIGEST_BYTES)]
    assert [single.contains_digests(digest)[0] for digest in one_by_one] == answers
    assert len(single) == len(whole) == len(keys)


@every_kind
def test_single_adds_and_small_batches_agree_with_a_set(name: str) -> None:
    seen = Subject(name).seen
    new = sum(seen.add(key) for key in urls(0, 250))
    assert new == len(seen)
    assert not any(seen.add(key) for key in urls(0, 250))
    for start in range(0, 250, 5):
        assert seen.add_many(urls(start, start + 5)) == []
    assert seen.add_many(["again", "again", "other"]) in ([0, 2], [0], [2], [])


@of_digests
@settings(max_examples=15)
@given(stored=st.integers(0, 300), after=st.integers(0, 60))
def test_a_stored_file_is_the_same_filter(name: str, stored: int, after: int) -> None:
    seen = MAKERS[name]()
    seen.add_many(urls(0, stored))
    file = io.BytesIO()
    write_seen(file, seen)
    file.seek(0)
    again = read_seen(file, limit=10**6)
    assert again.parameters() == seen.parameters()
    assert again.statistics() == seen.statistics()
    assert again.contains_many(urls(0, 2000)) == seen.contains_many(urls(0, 2000))
    more = urls(stored, stored + after)
    assert again.add_many(more) == seen.add_many(more)
    assert told(again) == told(seen)


@every_kind
@settings(max_examples=15)
@given(sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5), step=st.integers(1, 50))
def test_the_journal_rebuilds_it(name: str, sizes: list[int], step: int) -> None:
    subject = Subject(name)
    at = 0
    for size in sizes:
        subject.add(urls(at, at + size))
        at += size
    again = subject.replayed(step)
    assert told(again) == told(subject.seen)
    assert again.contains_many(urls(0, 1000)) == subject.seen.contains_many(urls(0, 1000))


@every_kind
@settings(max_examples=15)
@given(before=st.integers(0, 150), during=st.integers(0, 150), after=st.integers(0, 60))
def test_a_snapshot_written_while_keys_come_in_loses_nothing(name: str, before: int, during: int, after: int) -> None:
    subject = Subject(name)
    subject.add(urls(0, before))
    shot, since = subject.seen.snapshot(whole=False), len(subject.journal)
    subject.add(urls(before, before + during))
    while shot.advance():
        pass
    segments = {segment.name: memoryview(bytearray(segment.buffer)) for segment in shot.segments}
    subject.add(urls(before + during, before + during + after))
    resumed = subject.loaded(shot, segments)
    resumed.restore(subject.journal[since:])
    assert told(resumed) == told(subject.seen)
    assert all(resumed.contains_many(urls(0, before + during + after)))
    assert resumed.contains_many(urls(0, 2000)) == subject.seen.contains_many(urls(0, 2000))
