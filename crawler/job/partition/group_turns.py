"""Turns of groups whose hosts are in several partitions: hosts of one IP address, or of a name in the settings.

A group has an *owner*, the partition that a keyed hash of its key names. The owner lends the group to one partition at
a time. Who has it asks the hosts of the group as if it were alone, with all gaps and holds, and gives it back with the
seconds for which the group is to be left alone. Then the next in the line has it, for a few requests or seconds.

Clocks of different machines are not compared. Only lengths of time are told, and each is safe. (Processes that have
one clock, and know that, do not count the time that a note takes.)

    lent      a lease ends 5 seconds after its borrower has *asked*; for the owner, 5 seconds after it has *answered*.
              A borrower that has the group asks each second, and so renews its lease
    waits     a time to wait counts from when it is heard, which is later than it was told
    drift     each side allows for a clock of the other that is 1% faster or slower than its own

What is lost, late, doubled or overtaken costs time only:

    question  says all that its sender has and wants of the owner, and has a number; older ones are not heard
    back      a group that was given back is said to be so until an answer proves that this was heard
    silent    a borrower that is not heard any more loses the group when its lease has run out for the owner, and a gap
    under way while requests of a borrower are under way nobody else has the group, as long as it says so
    kept      a borrower whose host waits for another group too keeps this one until it has both
    new       an owner that begins (its partition was opened anew) does not know what another one has lent. It lends
              nothing before 5 seconds have passed, or all partitions have answered that they use nothing older

Pure: messages and time are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from msgspec import Struct

LENT = 5.0  # seconds from a question for which a group is lent
AGAIN = 1.0  # seconds after which a question is asked again
DRIFT = 1.02  # two clocks, each 1% off
SHORT, LONG = 1.0, 15.0  # seconds for which a group is used at a time while others wait, at least and at most
_TRIPS = 35  # ... and so many times as long as an answer takes: a change of partitions costs about one of those
_SILENT = 3.0  # seconds after which somebody who wants a group, or is busy in it, is not regarded any more
_EARLY = 0.5  # seconds before a group is free, from which on it is lent
_IDLE = 0.3  # seconds for which a group lies unused before it is given back, if others wait
_WANTED = 2_000  # groups that a partition waits for at a time: a question names them all
_PRUNED = 10_000  # groups, above which those that nobody uses are forgotten


class Moment(Struct, array_like=True, frozen=True):
    """When something was said, by a ``clock`` with that name. Only who has the same clock can read it."""

    clock: str
    at: float

    def after(self, wait: float, clock: str, now: float) -> float:
        """When ``wait`` seconds from this moment are surely over. ``clock`` is that of ``now``; without a name it is
        no other's."""
        return self.at + wait if clock and clock == self.clock else now + wait * DRIFT


class Want(Struct, array_like=True, frozen=True):
    """What a partition says of a group: the number of its ``tenure`` (0: it has none), the largest ``gap`` it knows,
    how many seconds it would ``wait``, whether requests are under way (``busy``), whether one of them cannot end
    without another request, or the group is kept (``stuck``), and whether it ``wants`` the group."""

    key: str
    tenure: int
    gap: float
    wait: float
    busy: bool
    stuck: bool
    wants: bool


class Returned(Struct, array_like=True, frozen=True):
    """A group that is given back, to be left alone for ``wait`` seconds."""

    key: str
    tenure: int
    wait: float


class TurnsQuestion(Struct, array_like=True, tag=6, frozen=True):
    """What a partition has and wants of one owner. ``asker``: a number of this opening of the partition. ``epoch``: of
    its claim. ``heard``: the owner whose turns it uses, none of an older one. ``trip``: seconds to an answer."""

    asker: int
    number: int
    epoch: int
    heard: int
    trip: float
    sent: Moment
    wants: tuple[Want, ...] = ()
    back: tuple[Returned, ...] = ()


class Turn(Struct, array_like=True, frozen=True):
    """A group that is lent: after ``wait`` seconds, requests may begin until ``term`` seconds are over. ``gap``: the
    largest that anybody has told. ``others``: whether others wait for it."""

    key: str
    tenure: int
    wait: float
    term: float
    gap: float
    others: bool


class TurnsAnswer(Struct, array_like=True, tag=7, frozen=True):
    """The answer to the question of that ``number``. ``later``: not the first one."""

    asker: int
    number: int
    epoch: int
    sent: Moment
    turns: tuple[Turn, ...] = ()
    later: bool = False


class TurnsCall(Struct, array_like=True, tag=8, frozen=True):
    """An owner has begun: who has turns of an older one drops them and says so."""

    epoch: int


class _Asker(Struct):
    """A partition as an owner knows it."""

    id: int
    epoch: int
    number: int = 0
    trip: float = 0.0


class _Asked(Struct):
    """What a partition wanted last."""

    number: int
    at: float


class _Group(Struct):
    """A group as its owner knows it. ``holder``: a partition, -1: none. The lease of the holder has ended at
    ``held_until``. The group is not to be asked before ``free_at``. ``line``: who wants it, in order of arrival.
    ``busy``: until when partitions count as having requests under way."""

    line: dict[int, _Asked]
    busy: dict[int, float]
    holder: int = -1
    tenure: int = 0
    began: float = -inf
    held_until: float = -inf
    free_at: float = -inf
    gap: float = 0.0

    def is_in_use(self) -> bool:
        return self.holder >= 0 or bool(self.line) or bool(self.busy)


class Lessor:
    """Lends the groups that one partition owns. What it says is a list of (partition, answer)."""

    def __init__(self, epoch: int, partitions: int, now: float, clock: str = "") -> None:
        """It begins ``now``: another one may have lent until then. ``clock`` names the clock of all times; without a
        name it is no other's."""
        self.epoch = epoch
        self._clock = clock
        self._unheard = set(range(partitions))
        self._ready_at = inf
        self._knows_all_at = now + LENT * DRIFT
        self._askers: dict[int, _Asker] = {}
        self._groups: dict[str, _Group] = {}
        self._in_use: set[str] = set()
        self._tenures = 0

    def to_call(self, now: float) -> list[int]:
        """The partitions that are to be told that this owner has begun."""
        self._look_whether_ready(now)
        return [] if self._ready_at < inf else sorted(self._unheard)

    def heard(self, partition: int, question: TurnsQuestion, now: float) -> list[tuple[int, TurnsAnswer]]:
        """Hear a question of a partition."""
        asker = self._asker(partition, question, now)
        if asker is None:
            return []
        if question.heard == self.epoch:
            self._unheard.discard(partition)
        was_ready = self._ready_at < inf
        self._look_whether_ready(now)
        if question.number <= asker.number:
            return []
        asker.number, asker.trip = question.number, question.trip
        sent = question.sent
        served: set[str] = {back.key for back in question.back if self._take_back(partition, back, sent, now)}
        turns: list[Turn] = []
        for want in question.wants:
            group = self._hear(partition, question, want, now)
            if group.holder == partition:
                turns.append(self._renewed(group, want, now))
            else:
                served.add(want.key)
        moment = Moment(self._clock, now)
        answers = [(partition, TurnsAnswer(asker.id, question.number, self.epoch, moment, tuple(turns)))]
        return answers + self._serve(served if was_ready else set(self._in_use), now)

    def look(self, now: float) -> list[tuple[int, TurnsAnswer]]:
        """Take back what has run out, and lend it to others."""
        self._look_whether_ready(now)
        for key in list(self._in_use):
            group = self._groups[key]
            if group.holder >= 0 and now >= group.held_until:
                group.free_at = max(group.free_at, group.held_until + group.gap)
                group.holder = -1
            for partition, until in list(group.busy.items()):
                if now >= until:
                    del group.busy[partition]
            for partition, asked in list(group.line.items()):
                if now >= asked.at + _SILENT:
                    del group.line[partition]
            if not group.is_in_use():
                self._in_use.discard(key)
        if len(self._groups) > _PRUNED:
            self._groups = {
                key: each for key, each in self._groups.items() if key in self._in_use or each.free_at > now
            }
        return self._serve(self._in_use, now)

    def _look_whether_ready(self, now: float) -> None:
        if self._ready_at == inf and (not self._unheard or now >= self._knows_all_at):
            self._ready_at = now

    def _asker(self, partition: int, question: TurnsQuestion, now: float) -> _Asker | None:
        """The sender; None if the partition has been opened anew since."""
        asker = self._askers.get(partition)
        if asker is not None and asker.id != question.asker:
            if question.epoch <= asker.epoch:
                return None
            for group in self._groups.values():  # whoever asked before is gone
                if group.holder == partition:
                    group.holder, group.free_at = -1, max(group.free_at, now + group.gap)
                group.line.pop(partition, None)
                group.busy.pop(partition, None)
            asker = None
        if asker is None:
            asker = self._askers[partition] = _Asker(question.asker, question.epoch)
        asker.epoch = max(asker.epoch, question.epoch)
        return asker

    def _take_back(self, partition: int, back: Returned, sent: Moment, now: float) -> bool:
        group = self._groups.get(back.key)
        if group is None or group.holder != partition or group.tenure != back.tenure:
            return False
        group.holder = -1
        group.busy.pop(partition, None)
        group.free_at = max(group.free_at, sent.after(back.wait, self._clock, now))
        return True

    def _hear(self, partition: int, question: TurnsQuestion, want: Want, now: float) -> _Group:
        group = self._groups.get(want.key)
        if group is None:
            group = self._groups[want.key] = _Group({}, {})
        self._in_use.add(want.key)
        group.gap = max(group.gap, want.gap)
        if want.busy:
            group.busy[partition] = now + _SILENT
        else:
            group.busy.pop(partition, None)
        if group.holder == partition:
            return group
        group.free_at = max(group.free_at, question.sent.after(want.wait, self._clock, now))
        if want.wants:
            asked = group.line.setdefault(partition, _Asked(0, now))
            asked.number, asked.at = question.number, now
        else:
            group.line.pop(partition, None)
        return group

    def _renewed(self, group: _Group, want: Want, now: float) -> Turn:
        group.held_until = now + LENT * DRIFT
        return self._turn(want.key, group, now, stuck=want.stuck)

    def _turn(self, key: str, group: _Group, now: float, *, stuck: bool = False) -> Turn:
        others, term = bool(group.line), LENT
        if others:
            # Whoever waits knows how long it takes until it has the group, and so does who has it.
            trip = max(self._askers[each].trip for each in (group.holder, *group.line))
            share = min(max(SHORT, _TRIPS * trip), LONG)
            term = share if stuck else max(0.0, group.began + share - now)
        return Turn(key, group.tenure, max(0.0, group.free_at - now), term, group.gap, others)

    def _serve(self, keys: Iterable[str], now: float) -> list[tuple[int, TurnsAnswer]]:
        """Lend groups that are free to the first of their lines."""
        if self._ready_at == inf:
            return []
        turns: dict[tuple[int, int], list[Turn]] = {}
        for key in keys:
            group = self._groups[key]
            if group.holder >= 0 or not group.line:
                continue
            group.free_at = max(group.free_at, self._ready_at + group.gap)
            first = next((each for each in group.line if not group.busy.keys() - {each}), None)
            if first is None or group.free_at > now + _EARLY:
                continue
            asked = group.line.pop(first)
            self._tenures += 1
            group.holder, group.tenure = first, self._tenures
            group.began, group.held_until = max(now, group.free_at), now + LENT * DRIFT
            turns.setdefault((first, asked.number), []).append(self._turn(key, group, now))
        moment = Moment(self._clock, now)
        return [
            (partition, TurnsAnswer(self._askers[partition].id, number, self.epoch, moment, tuple(each), later=True))
            for (partition, number), each in turns.items()
        ]


class _Use(Struct):
    """A group as a partition that asks its hosts knows it. ``last``: the latest tenure that it has had. Requests may
    begin from ``start_at`` to ``begin_until``, and be sent until ``lease_until``."""

    owner: int
    gap: float = 0.0
    largest: float = 0.0  # that the owner knows
    tenure: int = 0
    last: int = 0
    start_at: float = -inf
    begin_until: float = -inf
    lease_until: float = -inf
    others: bool = False
    inside: int = 0
    wants: bool = False
    stuck: bool = False
    is_done: bool = False  # whether nobody wants it any more
    idle_from: float = -inf  # when somebody who wants it could have begun


class _Owner(Struct):
    """An owner as a partition knows it. ``back``: what was given back, with the number of the first question that says
    so, its tenure, and when the group may be asked."""

    asked: dict[int, float]
    back: dict[str, tuple[int, int, float]]
    keys: dict[str, None]
    epoch: int = 0
    number: int = 0
    asked_at: float = -inf
    trip: float = 0.0
    is_due: bool = False  # whether it is to be asked at once


class Lessee:
    """What one partition has of the groups of all owners."""

    def __init__(
        self,
        asker: int,
        owner_of: Callable[[str], int],
        free_at: Callable[[str], float],
        clock: str = "",
        is_kept: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """``free_at(key)`` says when the group may be asked, as far as this partition knows, by the clock of all times
        here; ``is_kept(key)``, whether it is kept for a host that waits for another one too. ``clock``: see
        ``Lessor``."""
        self._asker = asker
        self._clock = clock
        self._owner_of = owner_of
        self._free_at = free_at
        self._is_kept = is_kept
        self._uses: dict[str, _Use] = {}
        self._owners: dict[int, _Owner] = {}
        self._wanting: set[str] = set()

    # -- what the partition asks for ---------------------------------------------------------------------------

    def wait(self, key: str, gap: float, now: float, *, inside: bool = False) -> float | None:
        """Ask for a request to a group. Returns 0 if it may begin, and else the seconds until it may; None: that is
        said later (``heard``). ``inside``: within a visit that has begun."""
        use = self._uses.get(key)
        if use is None:
            use = self._uses[key] = _Use(self._owner_of(key))
        use.gap, use.idle_from, use.is_done = gap, max(use.idle_from, now), False
        if use.tenure and now < min(use.begin_until, use.lease_until):
            return max(0.0, use.start_at - now)
        use.stuck = use.stuck or inside
        if not use.wants:
            if len(self._wanting) >= _WANTED:
                return AGAIN
            use.wants = True
            self._wanting.add(key)
            owner = self._owner(use.owner)
            owner.keys[key], owner.is_due = None, True
        return None

    def keep(self, key: str, until: float) -> None:
        """The group, which is lent, is to be used then: it is not idle before."""
        use = self._uses[key]
        use.idle_from = max(use.idle_from, until)

    def began(self, key: str) -> None:
        """A visit of the group begins."""
        self._uses[key].inside += 1

    def ended(self, key: str, now: float, *, more: bool = True) -> bool:
        """A visit of the group has ended. ``more``: others are to follow. Returns whether other partitions wait for the
        group, so that it may have to be given back."""
        use = self._uses[key]
        use.inside -= 1
        use.is_done = not more
        use.idle_from = now + max(use.gap, use.largest)
        return use.others

    def may_send(self, key: str, now: float) -> bool:
        """Whether a request may be sent to the group."""
        use = self._uses.get(key)
        return use is not None and use.tenure > 0 and use.start_at <= now < use.lease_until

    def gap(self, key: str) -> float:
        """The largest gap of the group that others know."""
        use = self._uses.get(key)
        return 0.0 if use is None else use.largest

    def stop(self) -> None:
        """No request is made any more: everything is to be given back."""
        for use in self._uses.values():
            use.wants, use.inside = False, 0
            use.begin_until = use.lease_until = -inf

    # -- what it says and hears --------------------------------------------------------------------------------

    def questions(self, epoch: int, now: float) -> list[tuple[int, TurnsQuestion]]:
        """Give back what is not needed, and return what is to be asked now, with the partition that owns it."""
        asked = list[tuple[int, TurnsQuestion]]()
        for number, owner in self._owners.items():
            for key in list(owner.keys):
                self._reconsider(key, self._uses[key], owner, now)
            if owner.is_due or ((owner.keys or owner.back) and now >= owner.asked_at + AGAIN):
                asked.append((number, self._question(owner, epoch, now)))
        return asked

    def called(self, number: int, epoch: int) -> None:
        """The owner has begun in that epoch."""
        owner = self._owner(number)
        if epoch >= owner.epoch:
            self._begin(owner, epoch)
            owner.is_due = True

    def heard(self, number: int, answer: TurnsAnswer, now: float) -> list[str]:
        """Hear an answer. Returns the groups that are lent newly."""
        owner = self._owner(number)
        if answer.asker != self._asker or answer.epoch < owner.epoch:
            return []
        self._begin(owner, answer.epoch)
        owner.back = {key: back for key, back in owner.back.items() if back[0] > answer.number}
        at = owner.asked.get(answer.number)
        if at is None:
            return []
        if not answer.later:
            owner.trip = max(now - at, 0.8 * owner.trip)
        return [turn.key for turn in answer.turns if self._take(turn, at, answer.sent, now)]

    def _owner(self, number: int) -> _Owner:
        owner = self._owners.get(number)
        if owner is None:
            owner = self._owners[number] = _Owner({}, {}, {})
        return owner

    def _begin(self, owner: _Owner, epoch: int) -> None:
        """The owner is the one of that epoch: what an older one has lent holds no more."""
        if epoch == owner.epoch:
            return
        owner.epoch, owner.is_due = epoch, True
        owner.back.clear()
        for key in owner.keys:
            use = self._uses[key]
            if use.tenure:
                use.wants = True
                self._wanting.add(key)
            use.tenure = use.last = 0

    def _take(self, turn: Turn, asked_at: float, sent: Moment, now: float) -> bool:
        use = self._uses.get(turn.key)
        if use is None or turn.tenure < use.last or (turn.tenure == use.last and not use.tenure):
            return False
        is_new = turn.tenure > use.last
        if is_new:
            use.tenure = use.last = turn.tenure
            use.start_at = use.idle_from = max(now, sent.after(turn.wait, self._clock, now))
            use.lease_until = -inf
        use.lease_until = max(use.lease_until, asked_at + LENT / DRIFT)
        use.begin_until, use.others, use.largest = now + turn.term, turn.others, turn.gap
        calls = is_new or (use.wants and turn.term > 0)
        if calls:
            use.wants = False
            self._wanting.discard(turn.key)
        use.stuck = False
        return calls

    def _reconsider(self, key: str, use: _Use, owner: _Owner, now: float) -> None:
        if use.tenure:
            if not use.inside and self._is_over(key, use, now):
                self._give_back(key, use, owner, now)
        elif not (use.inside or use.wants) and now >= use.idle_from + 2 * LENT:
            del owner.keys[key], self._uses[key]

    def _is_over(self, key: str, use: _Use, now: float) -> bool:
        """Whether the group is to be given back, with nothing under way."""
        if now >= use.lease_until:
            return True
        if self._is_kept(key):
            return False
        if use.others and use.is_done:
            return True
        if (free_at := self._free_at(key)) > now:
            return use.others and free_at >= use.begin_until  # nobody can begin before the term is over
        if use.others:
            return now >= min(use.begin_until, use.idle_from + _IDLE)
        return now >= use.idle_from + LENT

    def _give_back(self, key: str, use: _Use, owner: _Owner, now: float) -> None:
        owner.back[key] = (owner.number + 1, use.tenure, max(self._free_at(key), use.start_at))
        use.tenure = 0
        use.begin_until = use.lease_until = -inf
        owner.is_due = True

    def _question(self, owner: _Owner, epoch: int, now: float) -> TurnsQuestion:
        owner.number += 1
        owner.asked = {number: at for number, at in owner.asked.items() if now < at + LENT}
        owner.asked[owner.number], owner.asked_at, owner.is_due = now, now, False
        back = [Returned(key, tenure, max(0.0, at - now)) for key, (_, tenure, at) in owner.back.items()]
        wants = [self._want(key, self._uses[key], now) for key in owner.keys]
        wanted = tuple(want for want in wants if want.tenure or want.busy or want.wants or want.wait)
        moment = Moment(self._clock, now)
        return TurnsQuestion(self._asker, owner.number, epoch, owner.epoch, owner.trip, moment, wanted, tuple(back))

    def _want(self, key: str, use: _Use, now: float) -> Want:
        wait = max(0.0, self._free_at(key) - now)
        is_stuck = use.stuck or (use.tenure > 0 and self._is_kept(key))
        return Want(key, use.tenure, use.gap, wait, use.inside > 0, is_stuck, use.wants)
