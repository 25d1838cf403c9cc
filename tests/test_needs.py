from __future__ import annotations

import pytest

from tests.needs import need, need_version


def test_a_program_that_is_there_is_found() -> None:
    assert need("sh", "dash").endswith("/sh")
    need_version("pytest", 9)


def test_a_missing_program_skips_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install no-such-package"):
        need("no-such-program", "no-such-package")
    for name, least in (("no-such-distribution", 1), ("pytest", 1_000)):
        with pytest.raises(pytest.skip.Exception, match=f"pip install '{name}>={least}'"):
            need_version(name, least)


def test_in_ci_a_missing_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install no-such-package"):
        need("no-such-program", "no-such-package")
    with pytest.raises(pytest.fail.Exception, match="pytest 1000 is missing"):
        need_version("pytest", 1_000)
