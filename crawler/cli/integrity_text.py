"""Texts for the findings of ``verify`` and the changes by ``repair``."""

from __future__ import annotations

from collections.abc import Mapping

from crawler.base.figures import counted
from crawler.inspect.integrity.change import Change
from crawler.inspect.integrity.finding import Detail, Finding, Kind, is_fault

_DIRECTORIES = frozenset({"store", "seen", "inbox", "bodies"})


class _Quantity(int):
    """A number that is formatted with the noun in its format, if any."""

    def __format__(self, noun: str) -> str:
        return counted(self, noun) if noun else str(int(self))


def finding_text(finding: Finding) -> str:
    """Return one line about the finding."""
    text = _text(finding)
    if is_fault(finding) or finding.kind is Kind.OUTPUT_LOST:  # a person may have deleted it
        return text
    return f"{text} (left by a power loss; the next run repairs it)"


def _text(finding: Finding) -> str:
    details = _formattable(finding.details)
    details["what"] = "the next run" if finding.mends else "`crawler repair`"
    if finding.key is not None:
        details["key"] = repr(finding.key)
        details.setdefault("number", int.from_bytes(finding.key, "big"))
    text = finding.kind.words.format(**details)
    match finding.kind:
        case (
            Kind.UNREADABLE
            | Kind.RUN_SETTINGS_DAMAGED
            | Kind.COMMAND_DAMAGED
            | Kind.HISTORY_DAMAGED
            | Kind.MARKDOWN_DAMAGED
        ):
            return text  # the error names the file
        case Kind.LOG_DAMAGED:
            return f"{finding.place}/{text}"
    return f"{finding.place}/: {text}" if finding.place in _DIRECTORIES else f"{finding.place}: {text}"


def change_text(change: Change) -> str:
    """Return one line about the change."""
    return change.done.words.format(**_formattable(change.details))


def _formattable(details: Mapping[str, Detail]) -> dict[str, object]:
    known = {name: "missing" if value is None else value for name, value in details.items()}
    return {name: _Quantity(value) if isinstance(value, int) else value for name, value in known.items()}
