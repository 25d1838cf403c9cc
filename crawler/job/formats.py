"""The formats of a job: what each one added, and how an older job is converted to the newest format.

The number of the format is in the head of ``job.json``. It rises with every change to what a job stores, so that an
older program refuses the job instead of misreading it. There are two kinds of changes.

    additive   a new family of the store, a new shaping setting: no stored bytes change their meaning. An older job is
               read as it is: the family is empty, the setting has the value that the program used before.
    other      stored bytes must be rewritten (``convert``). This happens only when the job is opened for writing.

A format may also be *on demand*: a job gets its number with the first thing it stores that older programs would
misread, and jobs without such a thing keep the number of the format before it.

docs/reference/versions.md says what a new format needs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.kv import Family, Store

FIRST = 1


class AddedSetting(Struct, frozen=True):
    """A shaping setting that older jobs do not name. ``before`` is the value that they were made with, which is not
    today's default."""

    table: str
    key: str
    before: Any


class JobCopy(Struct, frozen=True):
    """The copy of the job's state that a conversion changes. If the process dies, the copy is discarded and the
    conversion begins again, so a change need be neither atomic nor repeatable."""

    store: Store  # with every family of the newest format
    seen: Path  # the copied directory; its files are shared with the job: replace them, never write into them


class Format(Struct, frozen=True):
    """What one format adds to the one before it. ``keyed``: from now on the hash of URLs has a secret. ``on_demand``:
    only jobs that need the format get its number."""

    families: frozenset[Family] = frozenset()
    settings: tuple[AddedSetting, ...] = ()
    convert: Callable[[JobCopy], None] | None = None
    keyed: bool = False
    on_demand: bool = False


class Formats(Struct, frozen=True):
    """All formats that the program knows: the first, and ``later`` ones in order."""

    later: tuple[Format, ...] = ()

    @property
    def newest(self) -> int:
        return FIRST + len(self.later)

    @property
    def usual(self) -> int:
        """The format of a new job, and at least that of a job that was opened for writing."""
        return max((FIRST + at for at, each in enumerate(self.later, 1) if not each.on_demand), default=FIRST)

    @property
    def keyed(self) -> bool:
        """Whether a new job has a secret, and an older one gets one if that is possible (``rekey``)."""
        return any(each.keyed for each in self.later)

    def after(self, number: int) -> tuple[Format, ...]:
        """The formats after the one with that number."""
        return self.later[number - FIRST :]

    def families_after(self, number: int) -> frozenset[Family]:
        """The families of the store that a job of that format need not have."""
        return frozenset[Family]().union(*(each.families for each in self.after(number)))

    def settings_after(self, number: int) -> dict[tuple[str, str], Any]:
        """The shaping settings that a job of that format does not name, with the values it was made with."""
        added = [setting for each in self.after(number) for setting in each.settings]
        return {(setting.table, setting.key): setting.before for setting in added}

    def conversions_after(self, number: int) -> list[Callable[[JobCopy], None]]:
        return [each.convert for each in self.after(number) if each.convert is not None]


KNOWN = Formats(
    (
        # 2. An older job is read as it is; ``seen.hash`` is what it gets with its secret.
        Format(frozenset({Family.REFUSED}), (AddedSetting("seen", "hash", "blake2b"),), keyed=True),
        # 3. Additive.
        Format(frozenset({Family.BORDER, Family.SOFT404})),
        # 4. Additive: an event of a finished URL may name positions in several outputs.
        Format(frozenset({Family.ASIDES})),
        # 5. Additive.
        Format(frozenset({Family.PAYLOADS})),
        # 6. On demand: the records are in several files. An older program takes the first one for all of them.
        Format(on_demand=True),
        # 7. On demand: the job is that of another fetcher. An older program takes its requests for URLs.
        Format(frozenset({Family.REQUESTS}), on_demand=True),
        # 8. On demand: the job is a partition of a crawl. An older program takes URLs of other partitions for its own.
        Format(frozenset({Family.OUTBOX, Family.INLET}), on_demand=True),
        # 9. The counters are stored in a shorter form. An older job is read as it is.
        Format(),
        # 10. On demand: the store says which step of the log it holds. An older program would change it and leave the
        # name, so that a replica takes the steps of another state for those that follow its own.
        Format(on_demand=True),
    )
)
SEVERAL_FILES = 6
OF_A_FETCHER = 7
OF_A_CRAWL = 8
LOGGED = 10
