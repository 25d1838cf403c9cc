"""Generates a web of pages: the same files each time."""

from __future__ import annotations

import random
from pathlib import Path

MADE_HOSTS = 5
MADE_PAGES = 2_000  # of all hosts together
CHAPTER = 25  # pages


def make_files(home: Path, hosts: int = MADE_HOSTS, pages: int = MADE_PAGES) -> list[tuple[Path, str]]:
    """Write ``hosts`` manuals of ``pages`` HTML pages in all. Returns the directory and the first path of each.

    A page is like one of a generated manual: some 37 kB, half of it markup, with a table of contents that every page of
    its chapter has, links into the text of other pages, and two links to sites that do not exist.
    """
    return [(_make_manual(home / f"manual-{number}", number, pages // hosts), "/") for number in range(hosts)]


def make_small_files(home: Path, hosts: int = MADE_HOSTS, pages: int = MADE_PAGES) -> list[tuple[Path, str]]:
    """Write ``hosts`` sites of ``pages`` HTML pages in all, each of some 2 kB with 20 links to pages of its host.
    Returns the directory and the first path of each."""
    return [(_make_small(home / f"site-{number}", number, pages // hosts), "/") for number in range(hosts)]


def _make_small(root: Path, number: int, pages: int) -> Path:
    pick = random.Random(number)
    names = ["index.html", *(f"{page % 100}/{page}.html" for page in range(1, pages))]
    for page, name in enumerate(names):
        # Each page but the first has its parent in a tree of ten children a page, so that all are found.
        targets = [page * 10 + child for child in range(1, 11)]
        targets += [pick.randrange(pages) for _ in range(10)]
        links = "\n".join(
            f'<p>{pick.random():.12f} <a href="/{names[target % pages].removesuffix("index.html")}">{target}</a></p>'
            for target in targets
        )
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(pick.choices("abcdefghijk ", k=700))
        path.write_text(
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{page}</title></head><body>\n'
            f"<p>{text}</p>\n{links}\n</body></html>\n",
            "ascii",
        )
    return root


def _make_manual(root: Path, number: int, pages: int) -> Path:
    pick = random.Random(number)
    words = ["".join(pick.choices("aaeeiioubcdfghklmnprst", k=pick.randrange(3, 10))) for _ in range(800)]
    names = ["index.html", *(f"chapter-{page // CHAPTER}/page-{page:04d}.html" for page in range(1, pages))]
    for page, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_make_page(pick, words, names, page), "ascii")
    return root


def _make_page(pick: random.Random, words: list[str], names: list[str], page: int) -> str:
    up = "../" * names[page].count("/")

    def link(target: int, fragment: str = "") -> str:
        # The first page has one URL, as on a well-made site.
        path = up + names[target % len(names)].removesuffix("index.html")
        return f'<a class="reference internal" href="{path}{fragment}">{text(3)}</a>'

    def text(count: int) -> str:
        return " ".join(pick.choices(words, k=count))

    chapter = page // CHAPTER * CHAPTER
    contents = "\n".join(f"<li>{link(target)}</li>" for target in range(chapter, chapter + CHAPTER))
    sections = "\n".join(
        f'<section id="s{number}"><h2>{text(4)}<a class="headerlink" href="#s{number}">#</a></h2>\n'
        + "\n".join(
            f"<p>{text(40)} {link(pick.randrange(len(names)), f'#s{pick.randrange(20)}')} {text(30)}</p>"
            for _ in range(3)
        )
        + "</section>"
        for number in range(20)
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{text(4)}</title></head><body>\n'
        f'<nav>{link(page + 1)} {link(page + CHAPTER)} <a href="https://elsewhere.example/{page}">{text(2)}</a>\n'
        f'<a href="https://example.org/">{text(1)}</a><ul>{contents}</ul></nav>\n{sections}\n</body></html>\n'
    )
