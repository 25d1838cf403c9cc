"""What an owner and the replicas of its partition say of each other, besides the steps themselves.

Which homes are to keep a replica of partition 7 is ``Following`` in ``replica_homes``. Each of them is a *slot*, with a
name of its own on the carrier: ``p7r0``, ``p7r1``, ... Whoever follows in a slot puts its ``state`` there, and tells
the owner in a note when that has changed.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec
from msgspec import Struct

STATE = "state"  # the value of a slot
NOTED = 9  # the kind of the note: see ``notes``


class Being(IntEnum):
    """What a slot has."""

    NONE = 0
    COPYING = 1
    WHOLE = 2


class ReplicaState(Struct, frozen=True, array_like=True, tag=NOTED):
    """What the follower in a slot has, under the ``epoch`` of its claim: its last step, written and ``safe`` on its
    disk. While it is being copied, ``pieces`` of ``copy`` have come, and the last step is that of the steps which wait
    for the end of the copy. ``beats`` counts how often it said so."""

    slot: int
    epoch: int
    home: str
    beats: int
    state: int = 0
    line: int = 0
    number: int = 0
    safe_line: int = 0
    safe_number: int = 0
    copy: int = 0
    pieces: int = 0


def replica_name(partition: int, slot: int) -> str:
    """The name of a slot on a carrier: of its stream, its claim and its values."""
    return f"p{partition}r{slot}"


encode_value = msgspec.msgpack.Encoder().encode
_replica_state = msgspec.msgpack.Decoder(ReplicaState)


def decode_replica_state(value: bytes | None) -> ReplicaState | None:
    """None for what is not there, or cannot be read: it is said again."""
    try:
        return None if value is None else _replica_state.decode(value)
    except msgspec.DecodeError:
        return None
