"""Loads user code by name: ``module:function``, or an entry point that an installed package registers.

Modules in the current directory can be imported, as with ``python -m``, even if the program was started in another way.
Any error in a name is found when the code is loaded, and reported in one line.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from crawler.base.faults import UserFault
from crawler.base.settings.load import nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "crawler.hooks"  # entry point group
_CRAWLER = str(Path(__file__).resolve().parents[2]) + os.sep
_SHOWN = 300  # characters shown of an exception's text


class CodeError(UserFault, ValueError):
    """Code that cannot be used. The text is one line with the error and its location in the user's code."""


@dataclass(frozen=True)
class NamedCode:
    """A user function. ``name`` is its name in messages."""

    name: str
    function: Callable[..., Any]

    @cached_property
    def is_async(self) -> bool:
        """True if a call returns a coroutine."""
        called = type(self.function).__call__
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(called)

    @cached_property
    def module(self) -> str | None:
        """The module that defines the function."""
        name = getattr(self.function, "__module__", None) or type(self.function).__module__
        return name if isinstance(name, str) else None

    def is_of_user(self, file: str) -> bool:
        """Return whether a Python file belongs to the user: it is in the function's package, or neither part of this
        program nor installed."""
        return _is_of_user(file, _home(self.module))

    @cached_property
    def titled(self) -> str:
        """The function's name and code location."""
        return f"{self.name}{_at(self.function)}"

    def told(self, error: BaseException) -> str:
        """Return an exception in one line: where it was raised, its type, its text."""
        return _broken(self.module, error)


def load_code(code: str | Callable[..., Any], arguments: Sequence[str]) -> NamedCode:
    """Load the function with this name, or wrap the given function. ``arguments``: the names of the arguments that it
    will be called with, for messages. Raises CodeError."""
    named = _by_name(code) if isinstance(code, str) else NamedCode(_name_of(code), code)
    with _refused(named.name, "inspecting the function: "):
        _check(named, arguments)
        # Read these attributes once, here: each may run user code, and messages about failed calls need them.
        _ = named.is_async, named.module, named.titled
    return named


def where(error: BaseException, module: str | None = None) -> str | None:
    """Return ``file:line`` of the innermost user code in an exception's traceback: in the package of ``module``, or in
    code that is neither part of this program nor installed. None if no such code is in the traceback."""
    if isinstance(error, SyntaxError) and not str(error.filename or "<").startswith("<"):
        return f"{error.filename}:{error.lineno or 1}"
    home = _home(module)
    found = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_of_user(frame.filename, home)]
    return f"{found[-1].filename}:{found[-1].lineno}" if found else None


def said_of(error: BaseException) -> str:
    """Return the type and the text of an exception, in one line."""
    try:
        text = str((error.msg or "") if isinstance(error, SyntaxError) else error)
    except Exception as fault:  # user exceptions may raise in ``__str__`` # noqa: BLE001
        text = f"its message cannot be shown, because __str__ raises {type(fault).__name__}"
    text = _writable(" ".join(text.split()))
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _writable(text: str) -> str:
    """Escape characters that UTF-8 cannot encode, for records, events and answers from processes."""
    return text.encode("utf-8", "backslashreplace").decode()


def make_importable() -> None:
    """Add the current directory to the import path."""
    try:
        current = os.getcwd()
    except OSError:
        return  # the directory was removed, so there is nothing to import
    if not {"", current} & set(sys.path):
        sys.path.insert(0, current)
    importlib.invalidate_caches()


# -- loading ---------------------------------------------------------------------------------------------------


def _by_name(name: str) -> NamedCode:
    make_importable()
    if ":" in name:
        module, _, attribute = name.partition(":")
        return NamedCode(name, _loaded(name, module.strip(), attribute.strip()))
    entry = _entry_point(name)
    with _refused(name, f"its entry point, {entry.value!r}: "):
        module, attribute = entry.module, entry.attr
    return NamedCode(name, _loaded(f"{name} ({entry.value})", module, attribute))


def _entry_point(name: str) -> EntryPoint:
    from importlib.metadata import entry_points  # noqa: PLC0415, few crawls name code by its entry point

    installed = entry_points(group=GROUP)
    found = {entry.value: entry for entry in installed.select(name=name)}
    if not found:
        hint = nearest(name, sorted(installed.names))
        meant = _meant(name, "page") or (f"{name}:page" if _dotted(name) else "products:page")
        none = f"no installed package has an entry point {name!r} in {GROUP}{hint}"
        raise CodeError(f"write module:function, such as {meant}; {none}")
    if len(found) > 1:
        raise CodeError(f"several installed packages have an entry point {name!r}: {', '.join(sorted(found))}")
    return next(iter(found.values()))


def _loaded(name: str, module: str, attribute: str) -> Any:
    if not _dotted(module) or not _dotted(attribute):
        meant = _meant(module, attribute)
        raise CodeError(f"{name!r} is not of the form module:function{f' (did you mean {meant}?)' if meant else ''}")
    found: Any = _imported(name, module)
    for part in attribute.split("."):
        with _refused(name):
            try:
                found = getattr(found, part)
            except AttributeError as error:
                names = [each for each in dir(found) if not each.startswith("_")]
                file = getattr(found, "__file__", None)
                raise CodeError(
                    f"{name}: {_called(found)}{f' ({file})' if file else ''} has no {part!r}{nearest(part, names)}"
                ) from error
    return found


def _imported(name: str, module: str) -> ModuleType:
    try:
        with _refused(name, module=module, but=(ModuleNotFoundError, SystemExit)):
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            meant = _meant(module, name.partition(":")[2].partition(" ")[0])
            hint = f" (did you mean {meant}?)" if meant else ""
            raise CodeError(f"{name}: there is no module {error.name!r} in {_here()} or installed{hint}") from error
        raise CodeError(f"{name}: {_broken(module, error)}") from error
    except SystemExit as error:
        text = f"importing {module} ends the program; move its code under `if __name__ == '__main__'`"
        place = where(error, module)
        raise CodeError(f"{name}: {text if place is None else f'{place}: {text}'}") from error


def _meant(path: str, attribute: str) -> str | None:
    """If ``path`` is the path of a Python file, return the function's name as ``module:function``; otherwise None."""
    module = path.strip().removesuffix(".py").removeprefix("./").replace("/", ".")
    return f"{module}:{attribute}" if module != path and _dotted(module) and _dotted(attribute) else None


@contextmanager
def _refused(
    name: str, doing: str = "", module: str | None = None, but: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Turn any exception of user code in the block into a CodeError. Ctrl-C passes through."""
    try:
        yield
    except (CodeError, KeyboardInterrupt):
        raise
    except but:
        raise
    except BaseException as error:  # even if it is not derived from Exception
        raise CodeError(f"{name}: {doing}{_broken(module, error)}") from error


def _broken(module: str | None, error: BaseException) -> str:
    place = where(error, module)
    return said_of(error) if place is None else f"{_writable(place)}: {said_of(error)}"


def _check(named: NamedCode, arguments: Sequence[str]) -> None:
    function, name = named.function, named.name
    if not callable(function):
        raise CodeError(f"{name} cannot be called: it is {_a(type(function).__name__)}")
    if inspect.isclass(function):
        raise CodeError(f"{name} is a class; name a function or a callable instance")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise CodeError(f"{name} is a generator; use return instead of yield{_at(function)}")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return  # a function in C cannot be checked: a wrong call raises an error
    try:
        signature.bind(*arguments)
    except TypeError as error:
        asked = ", ".join(arguments)
        raise CodeError(f"{name} takes {signature}, but is called with ({asked}): {error}{_at(function)}") from error


def _name_of(function: object) -> str:
    with _refused(type(function).__name__, "reading its name: "):
        if isinstance(function, functools.partial):
            return _name_of(function.func)
        named = function if getattr(function, "__qualname__", None) else type(function)
        return f"{getattr(named, '__module__', None)}:{getattr(named, '__qualname__', None)}"


def _at(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _called(found: object) -> str:
    return str(getattr(found, "__name__", type(found).__name__))


def _dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "the current directory, which was removed,"


# -- ownership of code -------------------------------------------------------------------------------------


def _home(module: str | None) -> str | None:
    """Return the directory of the module's package, or the file of a module without a package."""
    top = None if module is None else sys.modules.get(module.partition(".")[0])
    file: str | None = getattr(top, "__file__", None)
    if file is None:
        return None
    return os.path.dirname(file) + os.sep if os.path.basename(file).startswith("__init__.") else file


def _is_of_user(file: str, home: str | None) -> bool:
    if file.startswith("<"):
        return False
    if home is not None and file.startswith(home):
        return True
    return not os.path.abspath(file).startswith(_installed())


def _installed() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {*site.getsitepackages(), site.getusersitepackages()}
    return _CRAWLER, *(path.rstrip(os.sep) + os.sep for path in paths if path)
