"""The order of a crawl: the default class of a URL, and its rank within its class and host.

    breadth   fewest links from a seed first, then first come, first served
    depth     newest first: follow the links of the page fetched last
    score     like breadth, but important hosts and pages first, see ``crawler.frontier.opic_score``

Ranks are part of stored keys, so the order of a job is fixed when it starts.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from crawler.base.settings.parts import CLASSES
from crawler.frontier.entry import Entry, fresh_slot, revisit_slot

_RANK_MAX = 2**64 - 1
_PRIORITIES = 2**32  # number of priorities on each side of 0
_SEQUENCE_MAX = 2**30 - 1
_MIDDLE_CLASS = 3


class Order(StrEnum):
    """The values of ``--order``."""

    BREADTH = "breadth"
    DEPTH = "depth"
    SCORE = "score"


def default_class(order: Order, depth: int, *, seed: bool) -> int:
    """Return the class of a URL that matches no rule.

    In breadth order it is the depth, up to the last class, so that URLs near the seeds get more turns. In the other
    orders seeds are in class 0 and all others in one class.
    """
    if seed:
        return 0
    return min(depth, CLASSES - 1) if order is Order.BREADTH else _MIDDLE_CLASS


def class_of_score(score: float) -> int:
    """Return the class of a link with a score from 0 to 1.

    Each class covers an eighth of the range; the first covers the highest scores.
    """
    return CLASSES - 1 - min(CLASSES - 1, int(score * CLASSES))


def slot_of(order: Order, entry: Entry, number: int) -> bytes:
    """Return the slot of a new entry in its host's queue."""
    if entry.revisit:
        return revisit_slot(number)
    return fresh_slot(number, entry.priority, _RANK_MAX - number if order is Order.DEPTH else entry.depth)


class Place(Struct, frozen=True):
    """The position in its host's queue that another fetcher asks for when it adds a request.

    A larger ``priority`` comes first. Within a priority, requests that are not ``last`` come first, and among these the
    ``newest`` or the oldest.
    """

    priority: int
    last: bool = False
    newest: bool = True


def class_of(priority: int) -> int:
    """Return the class of a request with that priority, so that hosts with urgent requests get more turns.

    A larger priority is never in a later class.
    """
    if priority > 0:
        return 2 - (priority >= 10) - (priority >= 1000)
    return _MIDDLE_CLASS + (priority < 0) + (priority <= -10) + (priority <= -100) + (priority <= -1000)


def placed_slot(place: Place, entry: Entry, number: int) -> bytes:
    """Return the slot of a request that has a place.

    The rank is, from the highest bit: 33 bits for the priority, 1 for ``last``, 30 for the sequence. The order among
    priorities beyond 2^32 is undefined.
    """
    priority = max(-_PRIORITIES, min(_PRIORITIES - 1, place.priority))
    sequence = min(number, _SEQUENCE_MAX)
    if place.newest:
        sequence = _SEQUENCE_MAX - sequence
    rank = (_PRIORITIES - 1 - priority) << 31 | place.last << 30 | sequence
    return fresh_slot(number, entry.priority, rank)
