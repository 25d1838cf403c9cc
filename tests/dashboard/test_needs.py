from __future__ import annotations

import pytest

from tests.needs import need


def test_a_program_that_is_there_is_found() -> None:
    assert need("sh", "dash").endswith("/sh")


def test_a_missing_program_skips_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install no-such-package"):
        need("no-such-program", "no-such-package")


def test_in_ci_a_missing_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install no-such-package"):
        need("no-such-program", "no-such-package")
