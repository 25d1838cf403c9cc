"""The archive of rendered pages, opened with pywb and Chromium when the site is gone: does it show the same text?

    python benchmarks/browser/replay.py [--pages 5] [--settings TOML] [--keep DIR]

pywb is installed once into an environment of its own. The text that the crawler has of a page is compared with the text
of the page that Chromium shows out of the archive. Ends with 1 if they differ.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from ground import CACHE, PORT, WHEN, Asked, Reply, Servers, command, header, isolate, measured, page, reap, records

HOST, DATA = "kept.test", "data.kept.test"
NAMES = {HOST: "127.0.18.1", DATA: "127.0.18.2"}
PYWB, PYWB_PORT = CACHE / "pywb", 8099
_APP = """
const number = +location.pathname.slice(1)
const root = document.querySelector('#root')
const write = (text) => { const p = document.createElement('p'); p.textContent = text; root.append(p) }
const data = await (await fetch('/data/' + number)).json()
write(data.text)
const { last } = await import('/module.js')
write(last)
const request = new XMLHttpRequest()
request.open('GET', 'http://OTHER/more/' + number)
request.onload = () => { write(request.response)
  data.links.forEach((to) => root.insertAdjacentHTML('beforeend', `<a href=${to}>on to ${to}</a> `)) }
request.send()
""".replace("OTHER", f"{DATA}:{PORT}")


def answer_of(pages: int):
    def answer(asked: Asked) -> Reply:
        number = int((re.findall(r"\d+$", asked.path) or ["1"])[0])
        if asked.path == "/robots.txt":
            return Reply("User-agent: *\nDisallow:\n", "text/plain")
        if asked.path == "/app.js":
            return Reply(_APP, "text/javascript")
        if asked.path == "/module.js":
            return Reply("export const last = 'What the module says, é and all.'", "text/javascript")
        if asked.path.startswith("/data/"):
            found = {"text": f"The data of page {number}.", "links": [f"/{n}" for n in range(1, pages + 1)]}
            return Reply(json.dumps(found), "application/json")
        if asked.path.startswith("/more/"):
            return Reply(f"More of page {number}.", "text/plain", headers={"Access-Control-Allow-Origin": "*"})
        return page("<div id=root></div><script type=module src=/app.js></script>")

    return answer


def text_of(document: str) -> str:
    """The words of a document's body, without scripts."""
    body = document[document.find("<body") :]
    body = re.sub(r"(?s)<(script|style|noscript)\b.*?</\1>|<!--.*?-->", " ", body)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def archived(job: Path, warcio: Path) -> dict[str, str]:
    """The text of each rendered document in the archive."""
    texts: dict[str, str] = {}
    for path in sorted(job.rglob("*.warc*")):
        index = subprocess.run(
            [warcio, "index", "-f", "offset,warc-type,warc-target-uri", path],
            capture_output=True,
            text=True,
            check=True,
        )
        for row in map(json.loads, index.stdout.splitlines()):
            if row["warc-type"] in {"conversion", "resource"} and row.get("warc-target-uri", "").startswith("http"):
                words = [warcio, "extract", "--payload", path, row["offset"]]
                texts[row["warc-target-uri"]] = text_of(
                    subprocess.run(words, capture_output=True, check=True).stdout.decode()
                )
    return texts


def replayed(home: Path, job: Path, urls: list[str]) -> dict[str, str]:
    """The text of each page as Chromium shows it out of pywb."""
    manager = PYWB / "bin" / "wb-manager"
    (home / "config.yaml").write_text("framed_replay: false\n")
    subprocess.run([manager, "init", "kept"], cwd=home, check=True, capture_output=True)
    for path in sorted(job.rglob("*.warc*")):
        subprocess.run([manager, "add", "kept", path], cwd=home, check=True, capture_output=True)
    shell = shutil.which("chromium-headless-shell") or shutil.which("chromium") or sys.exit("no chromium")
    with (home / "pywb.log").open("w") as log:
        words = [PYWB / "bin" / "wayback", "-p", str(PYWB_PORT), "-b", "127.0.0.1"]
        server = subprocess.Popen(words, cwd=home, stdout=log, stderr=log)
    try:
        for _ in range(100):
            with suppress(OSError), socket.create_connection(("127.0.0.1", PYWB_PORT)):
                break
            time.sleep(0.1)
        texts = {}
        for url in urls:
            at = f"http://127.0.0.1:{PYWB_PORT}/kept/{url}"
            flags = ["--headless", "--no-sandbox", "--dump-dom", "--virtual-time-budget=10000", "--timeout=20000"]
            shown = subprocess.run([shell, *flags, at], capture_output=True, timeout=60, check=False)
            texts[url] = text_of(shown.stdout.decode("utf-8", "replace"))
        return texts
    finally:
        server.kill()
        server.wait()
        reap(1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=5, help="(5)")
    parser.add_argument("--settings", default="", metavar="TOML", help="more settings of [browser]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the job is kept")
    chosen = parser.parse_args()
    if not (PYWB / "bin" / "wayback").exists():
        subprocess.run([sys.executable, "-m", "venv", PYWB], check=True)
        subprocess.run([PYWB / "bin" / "pip", "install", "--quiet", "pywb"], check=True)
    isolate(NAMES)
    header()
    settings = f'[browser]\nwhen = "{WHEN}"\nno_sandbox = true\n{chosen.settings}\n'
    with tempfile.TemporaryDirectory() as name:
        home, job = Path(name), Path(name) / "job"
        with Servers(NAMES.values(), answer_of(chosen.pages)):
            flags = ["--delay", "0", "--output", "warc"]
            ran = measured(command(job, [f"http://{HOST}:{PORT}/1"], settings, flags), limit=300)
        urls = sorted(str(row["url"]) for row in records(job) if row["outcome"] == "fetched")
        print(f"crawl: exit {ran.code}, {len(urls)} pages of {chosen.pages}; the servers are off from here\n")
        ours, theirs = archived(job, PYWB / "bin" / "warcio"), replayed(home, job, urls)
        if chosen.keep:
            shutil.copytree(home, chosen.keep, dirs_exist_ok=True)
    same = 0
    for url in urls:
        same += bool(theirs[url]) and ours.get(url) == theirs[url]
        print(f"{url}\n  archive  {ours.get(url, '(no rendered document)')}\n  replay   {theirs[url]}")
    print(f"\n{same} of {chosen.pages} pages have the same text")
    return int(same != chosen.pages)


if __name__ == "__main__":
    sys.exit(main())
