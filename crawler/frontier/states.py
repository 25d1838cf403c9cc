"""The states of a lease and of a host's queue: one table for each, and the only functions that change a state.

A lease

    OUTSIDE    has no place at the gate: for an address lookup, or before its turn
    INSIDE     has a place at the gate, for its request
    ANSWERED   has given its place back after its request; its page is still being processed
    CLOSED     never gets a place: its URL ends without a request
    OVER       has ended

A host

    IDLE       is not waiting: it has nothing to hand out, or all its lease slots are taken
    QUEUED     has a ticket in the schedule
    IN_LINE    waits in a line at the gate, for its turn among the hosts of its key or address
    BOTH       one of its requests waits in a line; a ticket for other requests is still in the schedule
"""

from __future__ import annotations

from typing import Protocol

OUTSIDE, INSIDE, ANSWERED, CLOSED, OVER = range(5)  # of a lease; integers: lookups in an enumeration cost more
IDLE, QUEUED, IN_LINE, BOTH = range(4)  # states of the queue of a host

ENTER, ANSWER, END = range(3)  # events of a lease
SCHEDULE, UNSCHEDULE, WAIT, CALL = range(4)  # events of a host

NO = -1  # marks a transition that is not allowed

LEASE = {
    # state:      (OUTSIDE, INSIDE,   ANSWERED, CLOSED, OVER)
    ENTER:        (INSIDE,  NO,       NO,       NO,     NO),
    ANSWER:       (NO,      ANSWERED, NO,       NO,     NO),
    END:          (OVER,    OVER,     OVER,     OVER,   NO),
}  # fmt: skip
QUEUE = {
    # state:      (IDLE,    QUEUED,   IN_LINE,  BOTH)
    SCHEDULE:     (QUEUED,  QUEUED,   NO,       BOTH),
    UNSCHEDULE:   (IDLE,    IDLE,     IN_LINE,  IN_LINE),
    WAIT:         (IN_LINE, BOTH,     IN_LINE,  BOTH),
    CALL:         (IDLE,    QUEUED,   IDLE,     QUEUED),
}  # fmt: skip


class Stateful(Protocol):
    """A lease or a host."""

    state: int


def change_lease(lease: Stateful, event: int) -> int:
    """Apply an event to a lease. Returns its previous state."""
    before = lease.state
    lease.state = after = LEASE[event][before]
    if after == NO:
        raise RuntimeError(f"event {event} is not allowed for a lease in state {before}")
    return before


def change_queue(host: Stateful, event: int) -> None:
    """Apply an event to the queue of a host."""
    before = host.state
    host.state = after = QUEUE[event][before]
    if after == NO:
        raise RuntimeError(f"event {event} is not allowed for a host in state {before}")
