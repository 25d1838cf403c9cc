"""Code of the user by its name: what is found, and what is said of what cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from crawler.engine.hooks.named_code import CodeError, load_code

_NUMBERS = count()
Written = Callable[[str], str]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Writes a module into the current directory, and returns its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(source: str) -> str:
        name = f"code_of_user_{next(_NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def refused(code: object, *arguments: str) -> str:
    """What is said of code that cannot be used."""
    with pytest.raises(CodeError) as raised:
        load_code(code, arguments or ("page",))  # type: ignore[arg-type]
    text = str(raised.value)
    assert "\n" not in text
    return text


def install(directory: Path, dist: str, **entries: str) -> None:
    """A package that is installed: its metadata as pip writes them."""
    info = directory / f"{dist}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
    lines = [f"{name.replace('_', '-')} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("[crawler.hooks]\n" + "\n".join(lines) + "\n")


def test_a_function_in_the_current_directory(written: Written) -> None:
    module = written(
        "class Shop:\n    def price(self, page):\n        return 3\nshop = Shop()\nasync def later(page): ...\n"
    )
    assert load_code(f"{module}:shop.price", ["page"]).function(None) == 3
    assert not load_code(f"{module}:shop.price", ["page"]).is_async
    assert load_code(f"{module}:later", ["page"]).is_async


def test_a_function_itself() -> None:
    def price(page: object, more: int = 0) -> int:
        return more

    named = load_code(price, ["page"])
    assert named.function is price
    assert named.name == f"{__name__}:test_a_function_itself.<locals>.price"
    assert load_code(len, ["page"]).function is len


def test_an_entry_point_of_an_installed_package(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = written("def price(page):\n    return 3\ndef other(page): ...\n")
    site = tmp_path / "site-packages"
    install(site, "shop", shop_prices=f"{module}:price", shared=f"{module}:price", lost="not_there_at_all:x")
    install(site, "shop_two", shared=f"{module}:other")
    monkeypatch.syspath_prepend(site)
    assert load_code("shop-prices", ["page"]).function(None) == 3
    assert "shop-prices" in refused("shop-price")
    assert f"{module}:other" in refused("shared")
    assert "not_there_at_all" in refused("lost")


def test_what_is_not_there(written: Written, tmp_path: Path) -> None:
    module = written("def price(page): ...\n")
    assert "not_there_at_all" in refused("not_there_at_all:x")
    assert "'price'" in refused(f"{module}:prise")
    for name in (f"{module}:", ":price", f"{module}:price()", f"{module}.py:price:x"):
        assert "module:function" in refused(name)
    refused("price")


def test_an_import_that_raises_names_the_line(written: Written, tmp_path: Path) -> None:
    deep = written("def fail():\n    raise LookupError('no\\nprice')\n")
    for source, line, words in [
        (f"import {deep}\n\n{deep}.fail()\n", f"{deep}.py:2", "LookupError: no price"),
        ("x = 1\nimport not_there_at_all\n", "2", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("x = 1\nx = = 2\n", "2", "SyntaxError: invalid syntax"),
        ("import json\njson.loads('[')\n", "2", "JSONDecodeError"),
        ("import sys\nsys.exit(3)\n", "2", "importing {module} ends the program"),
        ("class Skip(BaseException): ...\nraise Skip('not here')\n", "2", "Skip: not here"),
        ("raise GeneratorExit\n", "1", "GeneratorExit"),
        ("raise SyntaxError\n", "1", "SyntaxError"),
        ("def __getattr__(name):\n    raise ImportError('needs torch')\n", "2", "ImportError: needs torch"),
        ("class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad\n", "3", "Bad: "),
    ]:
        module = written(source)
        place = f"{tmp_path}/{line}" if ":" in line else f"{tmp_path}/{module}.py:{line}"
        assert refused(f"{module}:price").startswith(f"{module}:price: {place}: {words.format(module=module)}")


def test_what_cannot_be_called_as_it_will_be(written: Written, tmp_path: Path) -> None:
    module = written(
        "number = 3\nclass Price: ...\ndef many(page, shop): ...\ndef none(): ...\ndef each(page):\n    yield page\n"
    )
    assert f"{module}:number" in refused(f"{module}:number")
    assert f"{module}:Price" in refused(f"{module}:Price")
    assert f"{module}.py:3" in refused(f"{module}:many")
    assert "takes ()" in refused(f"{module}:none")
    assert f"{module}:each" in refused(f"{module}:each")
    assert load_code(f"{module}:many", ["page", "shop"])
