"""What holds for all tests."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, register_random, settings

from tests.chance import CHANCE
from tests.jobs import Stopped, stopped_job

HERE = Path(__file__).resolve().parent
# As measured with four processes on two cores: half a minute and more, the longest first.
LONGEST = (
    "service/dashboard/test_page.py",
    "inspect/integrity/test_repair.py",
    "test_examples.py",
    "durability/test_crash_points.py",
    "seen/filters/test_kinds.py",
    "durability/test_signals.py",
    "durability/test_flipped_store.py",
    "durability/test_crash_points_beside.py",
    "job/metrics/test_with_prometheus.py",
    "durability/test_output_taken.py",
    "cli/test_terminal.py",
    "test_docs.py",
)
assert not [name for name in LONGEST if not (HERE / name).exists()], "a file that was moved keeps its place here"

register_random(CHANCE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run tests marked long too, with 20 times the examples")


def pytest_configure(config: pytest.Config) -> None:
    """Set what the programs that tests start inherit, and what tests/examples.py reads when it is first imported."""
    if config.getoption("--long"):
        os.environ.setdefault("LONG", "20")
    _set_examples()
    config.addinivalue_line("markers", "long: takes too long for each run; pytest --long")
    _let_signals_through(config)
    _forget_proxies()
    config.addinivalue_line("markers", "real_secrets: secrets differ in each run, as they do for users")
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        _keep_bytecode_aside(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each process begin with other files: pytest rewrites every assertion, and keeps it for the others.

    All take the same files in the same order. Side by side, each would rewrite all of them, for a minute in all.
    """
    if not hasattr(session.config, "workerinput"):
        return
    own, all_of_them = int(session.config.workerinput["workerid"][2:]), session.config.workerinput["workercount"]
    files = sorted(file for given in session.config.args for file in Path(given).rglob("test_*.py"))
    for file in files[own::all_of_them]:
        with contextlib.suppress(Exception):  # the collection meets it again, and says so
            importlib.import_module(".".join(file.resolve().relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: at the end of a run the other processes would wait for them."""
    if not config.getoption("--long"):
        long = [item for item in items if item.get_closest_marker("long") is not None]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    slow = {item.path for item in items if item.get_closest_marker("timeout") is not None}
    ranks = {HERE / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (ranks.get(item.path, len(ranks)), item.path not in slow))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let secrets follow from the test, before its fixtures make any."""
    if item.get_closest_marker("real_secrets") is None:
        CHANCE.begin(item.nodeid)
    else:
        CHANCE.end()


def _set_examples() -> None:
    """How long an example takes says how busy the machine is, not whether the answer is right.

    A usual run makes the same examples each time: what only some find is for a long look.
    """
    from tests.examples import TIMES, USUAL  # noqa: PLC0415 - they follow from the command line

    settings.register_profile(
        "crawler",
        deadline=None,
        max_examples=USUAL,
        derandomize=TIMES == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("crawler")


def _forget_proxies() -> None:
    """Servers of tests have names that no proxy of this machine knows."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]


def _let_signals_through(config: pytest.Config) -> None:
    """Let child processes start with the default action for SIGINT and SIGHUP.

    A process that inherits an ignored signal keeps ignoring it: under ``nohup`` or behind ``&`` in a script, no test of
    Ctrl-C or of a closed terminal could pass. A handler is not inherited, and this one does what ignoring did for the
    tests' own process. Workers of pytest-xdist are such children themselves: a closed terminal must not end them.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        ignored = signal.getsignal(number) is signal.SIG_IGN
        if ignored or (number == signal.SIGHUP and hasattr(config, "workerinput")):
            signal.signal(number, lambda *_: None)


def _keep_bytecode_aside(config: pytest.Config) -> None:
    """Compile modules once, into pytest's cache, where PYTHONDONTWRITEBYTECODE keeps them out of the source.

    Otherwise each of some hundred programs that the tests start would compile the whole crawler again.
    """
    if hasattr(config, "cache"):
        aside = str(config.cache.mkdir("bytecode"))
    else:
        directory = tempfile.TemporaryDirectory(prefix="crawler-bytecode-")
        config.add_cleanup(directory.cleanup)
        aside = directory.name
    os.environ["PYTHONPYCACHEPREFIX"] = aside
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """A crawl stopped half-way, made once for all tests of a file."""
    with stopped_job(tmp_path_factory.mktemp("stopped"), 15, 30) as made:
        yield made


@pytest.fixture
def job(stopped: Stopped, tmp_path: Path) -> Path:
    """A copy of that crawl's job directory, to damage."""
    return stopped.copy(tmp_path / "job")
