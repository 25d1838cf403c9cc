"""Loads all user code that the settings of a crawl name."""

from __future__ import annotations

from functools import partial

from crawler.base.processes import cores
from crawler.base.settings.load import Source
from crawler.base.settings.parts import HookSettings, Settings
from crawler.engine.hooks.focus import ASKED, Focus
from crawler.engine.hooks.hook_failures import Hook
from crawler.engine.hooks.loop_calls import pool_of
from crawler.engine.hooks.named_code import CodeError, NamedCode, load_code
from crawler.engine.hooks.on_page import OnPage, OwnPages
from crawler.engine.hooks.process_calls import PageProcesses
from crawler.engine.hooks.requests import ON_VISIT, OnVisit
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.engine.user_code import UserCode
from crawler.job.metrics.catalogue import HOOKS_ASKED
from crawler.job.records import count_in

# The settings that name a function, and the function's arguments.
ARGUMENTS: dict[str, tuple[str, ...]] = {"on_page": ("page",), **ASKED, **ON_VISIT}

# Settings grouped by the function that they configure; None: any function.
_NEEDS: dict[str | None, tuple[str, ...]] = {
    "on_page": ("on_page_in", "on_page_types"),
    "score_page": ("relevant_score",),
    None: ("on_page_timeout", "on_error"),
}


class Hooks:
    """The functions of one run."""

    def __init__(self, settings: Settings, codes: dict[str, NamedCode]) -> None:
        """``codes``: the result of ``load_hooks``."""
        self._hooks = {setting: Hook(setting, code, settings.hooks) for setting, code in codes.items()}
        self._on_page = None
        if "on_page" in self._hooks:
            self._on_page = _on_page(self._hooks["on_page"], settings.hooks, settings.crawl.concurrency)
        focusing = {setting: hook for setting, hook in self._hooks.items() if setting in ASKED}
        self._focus = Focus(focusing) if focusing else None
        self._on_visit = OnVisit(self._hooks)
        figures = {setting: hook.figures for setting, hook in self._hooks.items()}
        headers, is_changed = self._on_visit.headers, self._on_visit.is_changed
        self.code = UserCode(self._on_page, figures, self._close, self._focus, headers, is_changed)

    def begin(self, run: Run) -> None:
        """Connect the functions to a run that starts."""
        for setting, hook in self._hooks.items():
            hook.note = run.note_failure
            hook.stop = partial(run.stop, Stop.CODE)
            if setting in HOOKS_ASKED:
                hook.count = partial(count_in, run.job.counters.calls_code_failed, setting, 1)

    @property
    def stopped_by(self) -> str | None:
        """The failure that stopped the crawl, in one line."""
        return next((hook.figures.stopped for hook in self._hooks.values() if hook.figures.stopped), None)

    def _close(self) -> None:
        if self._on_page is not None:
            self._on_page.close()
        if self._focus is not None:
            self._focus.close()
        self._on_visit.close()


def load_hooks(settings: HookSettings, source: Source) -> dict[str, NamedCode]:
    """Return the functions that the settings name, by setting. Raises CodeError, with the location of the setting."""
    found = {}
    for setting, arguments in ARGUMENTS.items():
        name: str | None = getattr(settings, setting)
        if name is None:
            continue
        try:
            found[setting] = load_code(name, arguments)
        except CodeError as error:
            raise CodeError(f"{source.at('hooks', setting)}: {setting}: {error}") from error
    code = found.get("on_page")
    if code is not None and code.is_async and settings.on_page_in == "process":
        place = source.at("hooks", "on_page_in")
        raise CodeError(f"{place}: on_page_in: {code.name} is async and has its own event loop; remove the setting")
    return found


def idle_settings(settings: HookSettings) -> list[str]:
    """For each function that is missing although settings for it were changed, return a sentence which states that
    these settings have no effect."""
    others = HookSettings()
    changed = [name for name in HookSettings.__struct_fields__ if getattr(settings, name) != getattr(others, name)]
    found = []
    for function, names in _NEEDS.items():
        named = ARGUMENTS if function is None else (function,)
        if any(getattr(settings, each) is not None for each in named):
            continue
        idle = [f"hooks.{name}" for name in names if name in changed]
        if idle:
            verb = "does" if len(idle) == 1 else "do"
            missing = "a function" if function is None else f"hooks.{function}"
            found.append(f"{', '.join(idle)} {verb} nothing without {missing}")
    return found


def functions_gone(last: HookSettings, settings: HookSettings) -> list[str]:
    """Return one sentence for each function that the last run had and this run does not."""
    names = [(each, getattr(last, each)) for each in ARGUMENTS if getattr(settings, each) is None]
    return [
        f"the last run had hooks.{setting} {name}, and this run has none: a job does not store functions"
        for setting, name in names
        if name is not None
    ]


def _on_page(hook: Hook, settings: HookSettings, concurrency: int) -> OnPage:
    if settings.on_page_in == "process" and not hook.code.is_async:
        workers = cores()
        return OnPage(hook, PageProcesses(hook.code, workers), settings, workers)
    return OnPage(hook, OwnPages(pool_of(hook.code)), settings, concurrency)
