"""Which responses are stored verbatim, by outputs that hold whole responses."""

from __future__ import annotations

from msgspec import Struct

from crawler.base.settings.parts import OutputSettings
from crawler.url.scope.patterns import Pattern, first_match

_MISSING = "text/html"  # the type that browsers assume for a response without one
_ANY = "*"


class StoreChoice(Struct, frozen=True):
    """Stores responses of these types and statuses, whose URLs match a pattern of ``include`` and none of ``exclude``.
    An empty list does not restrict. ``max_size``: the maximum bytes stored of a body, with its content coding."""

    max_size: int
    types: frozenset[str] = frozenset()
    statuses: frozenset[str] = frozenset()
    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, settings: OutputSettings) -> StoreChoice:
        return cls(
            settings.store_max_size,
            frozenset(kind.lower() for kind in settings.store_types),
            frozenset(settings.store_statuses),
            tuple(map(Pattern, settings.store_include)),
            tuple(map(Pattern, settings.store_exclude)),
        )

    def wants(self, href: str, status: int, content_type: str | None) -> bool:
        """Return True if a response should be stored. The type is ``type/subtype`` in lower case."""
        if self.statuses and self.statuses.isdisjoint((str(status), f"{status // 100}xx")):
            return False
        if not self.has_type(content_type):
            return False
        if self.include and first_match(self.include, href) is None:
            return False
        return not self.exclude or first_match(self.exclude, href) is None

    def has_type(self, content_type: str | None) -> bool:
        """Return True if responses of this type, ``type/subtype`` in lower case, may be stored."""
        kind = content_type or _MISSING
        return not self.types or not self.types.isdisjoint((kind, f"{kind.partition('/')[0]}/{_ANY}", f"{_ANY}/{_ANY}"))
