"""Code of the user by its name: what is found, and what is said of what cannot be used."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.settings import HookSettings
from crawler.engine.hooks.loaded import functions_gone, idle_settings
from crawler.engine.hooks.named_code import CodeError, load_code, where

_NUMBERS = count()
ODD = """class Shop:
    @property
    def model(self): raise RuntimeError("no model")
    @property
    def left(self): raise Gone
    @property
    def stopped(self): raise KeyboardInterrupt
class Gone(BaseException): ...
class Proxy:
    def __getattr__(self, name): raise RuntimeError(f"no {name}")
    def __call__(self, page): ...
class Signed:
    def __call__(self, page): ...
    @property
    def __signature__(self):
        1 / 0
class Listed:
    def __call__(self, page): ...
    @property
    def __dict__(self): return {}
    def __dir__(self): raise OSError("no list")
class Unnamed:
    def __call__(self, page): ...
    def __repr__(self): raise LookupError
shop, proxy, signed, listed = Shop(), Proxy(), Signed(), Listed()
"""
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
    assert "did you mean 'shop-prices'" in refused("shop-price")
    assert refused("shared").endswith(f"'shared': {module}:other, {module}:price")
    assert "there is no module 'not_there_at_all'" in refused("lost")


def test_what_is_not_there(written: Written, tmp_path: Path) -> None:
    module = written("def price(page): ...\n")
    assert refused("not_there_at_all:x") == (
        f"not_there_at_all:x: there is no module 'not_there_at_all' in {tmp_path} or installed"
    )
    assert refused(f"{module}:prise") == (
        f"{module}:prise: {module} ({tmp_path}/{module}.py) has no 'prise' (did you mean 'price'?)"
    )
    for name in (f"{module}:", ":price", f"{module}:price()", f"{module}.py:price:x"):
        assert "module:function" in refused(name)
    assert refused("price").startswith("write module:function, such as price:page; no installed package has an entry")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("{module}.py:price", "{module}:price"),
        ("./{module}.py:price", "{module}:price"),
        ("./{module}:price", "{module}:price"),
        ("shop/prices.py:of.page", "shop.prices:of.page"),
        ("./shop/prices.py:price", "shop.prices:price"),
    ],
)
def test_the_path_of_a_file_is_told_how_to_be_a_module(written: Written, name: str, meant: str) -> None:
    module = written("def price(page): ...\n")
    assert refused(name.format(module=module)).endswith(f" (did you mean {meant.format(module=module)}?)")


def test_a_file_without_a_function_is_told_how_to_name_one() -> None:
    assert refused("./products.py").startswith("write module:function, such as products:page; ")


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
    assert refused(f"{module}:number") == f"{module}:number cannot be called: it is an int"
    assert "is a class" in refused(f"{module}:Price")
    assert refused(f"{module}:many") == (
        f"{module}:many takes (page, shop), but is called with (page): missing a required argument: 'shop' "
        f"({tmp_path}/{module}.py:3)"
    )
    assert "takes ()" in refused(f"{module}:none")
    assert "use return, not yield" in refused(f"{module}:each")
    assert load_code(f"{module}:many", ["page", "shop"])


def test_what_raises_when_it_is_looked_at(written: Written, tmp_path: Path) -> None:
    module = written(ODD)
    for name, line, words in [
        ("shop.model", 3, "RuntimeError: no model"),
        ("shop.left", 5, "Gone"),
        ("proxy", 10, "RuntimeError: no __"),
        ("proxy.deep.price", 10, "RuntimeError: no deep"),
        ("signed", 16, "ZeroDivisionError"),
        ("listed.price", 21, "OSError: no list"),
    ]:
        text = refused(f"{module}:{name}")
        assert text.startswith(f"{module}:{name}: ")
        assert f"{tmp_path}/{module}.py:{line}: {words}" in text
    with pytest.raises(KeyboardInterrupt):
        load_code(f"{module}:shop.stopped", ["page"])
    odd = sys.modules[module]
    assert f"{module}.py:" in refused(odd.proxy)
    assert load_code(odd.Unnamed(), ["page"]).name == f"{module}:Unnamed"


def test_odd_objects_that_can_be_called(written: Written) -> None:
    module = written(
        "from unittest.mock import MagicMock\nmock = MagicMock()\n"
        "class Shop:\n    __module__ = 5\n    __name__ = 5\n    __signature__ = 5\n    def __call__(self, page): ...\n"
        "shop = Shop()\n"
    )
    for name in ("mock", "shop"):
        named = load_code(f"{module}:{name}", ["page"])
        assert named.told(ValueError("a")) == "ValueError: a"
        assert named.titled == f"{module}:{name}"
        assert not named.is_async


def test_the_line_of_the_user_that_an_exception_went_through(written: Written, tmp_path: Path) -> None:
    module = written("import json\n\ndef price(page):\n    return json.loads(page)\n")
    named = load_code(f"{module}:price", ["page"])
    with pytest.raises(ValueError, match="Expecting") as raised:
        named.function("[")
    assert named.where(raised.value) == f"{tmp_path}/{module}.py:4"
    assert named.told(raised.value).startswith(f"{tmp_path}/{module}.py:4: JSONDecodeError: Expecting value")
    assert where(ValueError("was never raised")) is None


def test_an_instance_and_a_partial_are_named_by_what_they_are_of() -> None:
    class Model:
        def __call__(self, page: object, more: int = 0) -> None:
            """Scores."""

    name = f"{__name__}:test_an_instance_and_a_partial_are_named_by_what_they_are_of.<locals>.Model"
    assert load_code(Model(), ["page"]).name == name
    assert load_code(functools.partial(Model(), more=1), ["page"]).name == name


def test_settings_without_their_function_are_named() -> None:
    idle = HookSettings(on_page_in="process", on_page_workers=2, relevant_score=0.7, on_error="stop")
    assert idle_settings(idle) == [
        "hooks.on_page_in, hooks.on_page_workers do nothing without hooks.on_page",
        "hooks.relevant_score does nothing without hooks.score_page",
        "hooks.on_error does nothing without a function",
    ]
    assert idle_settings(replace(idle, on_page="a:b", score_page="a:b")) == []
    assert idle_settings(HookSettings()) == []


def test_functions_that_the_last_run_had_are_named() -> None:
    last = HookSettings(on_page="shop:prices", score_page="shop:score")
    assert functions_gone(last, HookSettings(score_page="shop:other")) == [
        "the last run had hooks.on_page shop:prices, and this one has none: a job does not keep functions"
    ]
    assert functions_gone(HookSettings(), last) == []
