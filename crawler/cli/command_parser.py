"""The parser of the command line, which reports bad usage in one line that names the closest valid word."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from crawler.base.say import say
from crawler.base.settings.load import nearest
from crawler.cli.exit_codes import UsageError

_EXPECTED: Mapping[Any, str] = {int: "a whole number", float: "a number"}


class CommandParser(argparse.ArgumentParser):
    """Reports bad usage in one line, with the closest valid word. ``commands`` holds the commands' parsers by name.

    Flags must be written in full: an abbreviation in a script would become ambiguous, or change its meaning, when a
    flag with the same prefix is added.
    """

    commands: Mapping[str, argparse.ArgumentParser] = {}
    by_engine = False  # True if the words name an engine, so that no directory is expected

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def add_subparsers(self, **options: Any) -> Any:
        made = super().add_subparsers(**options)
        self.commands = made.choices
        return made

    def flag_like(self, word: str) -> str:
        """Return a hint, in brackets, that names the flag closest to a wrong one; an empty string if no flag is
        close."""
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        named = nearest(word.partition("=")[0].lstrip("-"), [flag.lstrip("-") for flag in flags])
        return named.replace("mean '", "mean '--")  # compared without dashes, which all flags share

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if action.choices is not None:
                wrong = f"invalid choice: {value!r}"  # the list of choices follows
                hint = nearest(str(value), map(str, action.choices))
                error.message = f"{wrong}{hint}{error.message.removeprefix(wrong)}"
            raise

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        try:
            return super()._get_value(action, text)
        except argparse.ArgumentError as error:
            if action.type in _EXPECTED:
                error.message = f"expected {_EXPECTED[action.type]}, not {text!r}"
            raise

    def _print_message(self, message: str, file: Any = None) -> None:
        say(file or sys.stderr, message.rstrip("\n"))  # it is not an error if the reader has closed the stream

    def error(self, message: str) -> NoReturn:
        see = "" if "did you mean" in message else f" (see {self.prog} --help)"
        raise UsageError(f"{message}{see}")
