"""The file that says in which directories partitions are at home: replaced as a whole, and never misread."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.disk import RealDisk
from crawler.base.settings.parts import PARTITIONS_MOST
from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.directory import JobError
from crawler.job.home_register import (
    EPOCH_MOST,
    HOMES,
    MAGIC,
    VERSION,
    Home,
    decode_homes,
    encode_homes,
    read_homes,
    write_homes,
)
from tests.test_docs import example

WHERE = st.builds(Home, st.text(st.characters(codec="utf-8"), max_size=32), st.just(0) | st.integers(0, EPOCH_MOST))
REGISTERS = st.dictionaries(st.integers(0, PARTITIONS_MOST - 1), WHERE)


def test_the_example_of_the_format() -> None:
    here, there = "0" * 32, "f" * 32
    homes = {0: Home(here), 1: Home(there, 300_000)}
    assert decode_homes(example("format-crawl.md", "homes"), HOMES) == homes
    assert encode_homes(homes) == example("format-crawl.md", "homes")


@given(REGISTERS)
def test_what_is_written_is_read(homes: dict[int, Home]) -> None:
    assert decode_homes(encode_homes(homes), HOMES) == homes


@given(REGISTERS, st.data())
def test_damage_is_refused(homes: dict[int, Home], data: st.DataObject) -> None:
    whole = bytearray(encode_homes(homes))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(JobError):
        decode_homes(bytes(whole), HOMES)


OTHER = [{"one": ["here", 0]}, {"-1": ["here", 0]}, {"01": 1}, {"01": None}, {"01": "x"}]
HOMES_OTHER = [["here"], ["here", -1], ["here", "1"], ["here", True], [1, 1], ["here", 2**63]]


@pytest.mark.parametrize("content", [*OTHER, *({"01": home} for home in HOMES_OTHER)])
def test_what_is_no_list_of_homes_with_epochs_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(JobError):
        decode_homes(encode_envelope(MAGIC, VERSION, content), HOMES)


def test_the_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    assert read_homes(tmp_path) == {}
    for homes in ({0: Home("here")}, {0: Home("here"), 7: Home("there", 9), 100: Home("here")}):
        write_homes(RealDisk(), tmp_path, homes)
        assert read_homes(tmp_path) == homes
    assert [path.name for path in tmp_path.iterdir()] == [HOMES]
    (tmp_path / HOMES).write_bytes(b"")
    with pytest.raises(JobError, match=HOMES):
        read_homes(tmp_path)
