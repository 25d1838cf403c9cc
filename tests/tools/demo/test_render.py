"""Rendering in a child process: what it must not see, and what happens when it dies."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from crawler.tools.demo.modules import MODULES
from crawler.tools.demo.render import Pages, RenderError


def pages_on_disk(cache: Path) -> list[bytes]:
    return [page.read_bytes() for page in cache.rglob("*.html")]


async def test_pages_show_nothing_of_the_users_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-correct-horse")
    pages = Pages(tmp_path, modules=("os",))
    await pages.start()
    page = await pages.get("os")
    await pages.stop()
    assert page is not None
    assert b"environ" in page
    assert b"hunter2-correct-horse" not in page
    assert b"API_TOKEN" not in page


async def test_a_module_in_the_working_directory_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "here"
    trap.mkdir()
    sprung = tmp_path / "sprung"
    (trap / "bisect.py").write_text(f"open({str(sprung)!r}, 'w')\n")
    monkeypatch.chdir(trap)
    monkeypatch.setenv("PYTHONPATH", str(trap))
    pages = Pages(tmp_path / "cache", modules=("bisect",))
    await pages.start()
    page = await pages.get("bisect")
    await pages.stop()
    assert page is not None
    assert b"insort" in page
    assert not sprung.exists()


async def test_a_page_asked_for_goes_before_all_others(tmp_path: Path) -> None:
    progress: list[int] = []
    pages = Pages(tmp_path, lambda there, of: progress.append(there))
    await pages.start()
    assert await pages.get("zoneinfo") is not None
    # The one that was in the making, and this one.
    assert progress[-1] <= 2
    await pages.stop()


async def test_progress_counts_every_page_up_to_all(tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    pages = Pages(tmp_path, lambda there, of: progress.append((there, of)), ("abc", "bisect", "no_such_module"))
    await pages.start()
    await pages.complete()
    await pages.stop()
    assert progress == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert await pages.get("no_such_module") is None


async def test_an_unknown_name_is_never_rendered(tmp_path: Path) -> None:
    pages = Pages(tmp_path, modules=("abc",))
    await pages.start()
    with pytest.raises(KeyError):
        await pages.get("../../etc/passwd")
    await pages.stop()


async def test_a_dead_renderer_is_told_to_those_who_wait(tmp_path: Path) -> None:
    pages = Pages(tmp_path, modules=("abc", "bisect"))
    await pages.start()
    for folder in os.listdir(tmp_path):
        shutil.rmtree(tmp_path / folder)
    with pytest.raises(RenderError, match=r"ended with status 1 at abc: FileNotFoundError"):
        await pages.get("abc")
    with pytest.raises(RenderError):
        await pages.complete()
    await pages.stop()


async def test_stopping_in_the_middle_leaves_no_half_page_and_no_waiter(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    await pages.start()
    await pages.get(MODULES[0])
    waiter = asyncio.create_task(pages.get(MODULES[-1]))
    await asyncio.sleep(0)
    await pages.stop()
    with pytest.raises(RenderError):
        await waiter
    kept = pages_on_disk(tmp_path)
    assert kept
    assert all(page.rstrip().endswith(b"</html>") for page in kept)
