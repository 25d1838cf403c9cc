"""Messages wait in a file, in order, and the file does not grow for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.disk import DisplacedError
from crawler.job.spool import Spool

MESSAGES = st.lists(st.one_of(st.none(), st.binary(max_size=300)), max_size=40)  # None: one is taken


@given(MESSAGES)
def test_messages_come_out_in_the_order_in_which_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, messages: list[bytes | None]
) -> None:
    spool, waiting = Spool(tmp_path_factory.mktemp("spool") / "07.spool"), list[bytes]()
    for message in messages:
        if message is not None:
            spool.append(message)
            waiting.append(message)
        else:
            assert spool.next() == (waiting.pop(0) if waiting else None)
        assert spool.size == sum(4 + len(each) for each in waiting)
    assert list(spool) == waiting
    assert spool.path.stat().st_size == 0
    spool.remove()
    assert not spool.path.exists()


def test_it_begins_empty_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "07.spool"
    path.write_bytes(b"of a process that ended")
    spool = Spool(path)
    assert spool.next() is None
    assert path.stat().st_size == 0
    spool.remove()
    spool = Spool(path)
    assert path.stat().st_mode & 0o077 == 0
    spool.remove()


def test_a_file_that_was_cut_is_told(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "07.spool")
    spool.append(b"message")
    with open(spool.path, "r+b") as other:
        other.truncate(6)
    with pytest.raises(DisplacedError):
        spool.next()
    spool.remove()
