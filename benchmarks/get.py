"""What a GET costs: our fetcher beside a bare aiohttp, and the lenient reader of heads beside aiohttp's own.

    python benchmarks/get.py [--batches N] [--size N] [--https]

--https: pages of several sizes from nginx over TLS 1.3, of which none, a third or all come over a connection of their
own; from a server that resumes sessions and from one that does not, beside whole handshakes by asyncio alone.

One process; the server is a child that answers with the same bytes, over connections that stay open. CPU time of the
client, in small batches that take turns; the least of each, since whatever else the machine does only adds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler

from benchmarks.kit.machine import describe_machine
from crawler.base.settings.parts import FetchSettings
from crawler.web.fetch import Fetcher, Response
from crawler.web.fetch.lenient import LenientHandler

BODY = b"<p>hello</p>" * 400
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 08:00:00 GMT\r\n"
    b"Content-Type: text/html; charset=utf-8\r\nCache-Control: max-age=0\r\nVary: Accept-Encoding\r\n"
    b'ETag: "abc"\r\nContent-Length: %d\r\n\r\n' % len(BODY) + BODY
)
LIMIT = 2**18
Get = Callable[[], Awaitable[None]]


class Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWER)


def serve(listening: socket.socket) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Server, sock=listening)
        await server.serve_forever()

    asyncio.run(run())


async def microseconds(get: Get, size: int) -> float:
    began = time.process_time()
    for _ in range(size):
        await get()
    return (time.process_time() - began) / size * 1e6


def reading(handler: ResponseHandler, *, decompress: bool) -> Get:
    async def read() -> None:
        handler.set_response_params(
            read_until_eof=True,
            auto_decompress=decompress,
            max_line_size=LIMIT,
            max_field_size=LIMIT,
            max_headers=256,
        )
        handler.data_received(ANSWER)
        _, payload = await handler.read()
        payload.read_nowait(-1)

    return read


async def measure(url: str, batches: int, size: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    target = yarl.URL(url)
    async with (
        Fetcher(FetchSettings(allow_private=True), concurrency=4, per_host=1, environ={}) as fetcher,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):

        async def ours() -> None:
            answer = await fetcher.fetch(url)
            assert isinstance(answer, Response)
            assert answer.body == BODY

        async def bare() -> None:
            async with session.get(target, allow_redirects=False) as answer:
                assert await answer.read() == BODY

        ways = {
            "a GET by aiohttp": bare,
            "a GET by the fetcher": ours,
            "reading an answer, aiohttp": reading(ResponseHandler(loop), decompress=True),
            "reading an answer, lenient": reading(LenientHandler(loop, LIMIT), decompress=False),
        }
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(batches):
            for name, get in ways.items():
                least[name] = min(least[name], await microseconds(get, size))
    return least


SIZES = (2_000, 13_000, 37_000, 242_000)
EACH = {"0": 1_000_000, "1/3": 3, "1": 1}  # share of new connections -> requests on each


def authority(home: Path) -> None:
    """A certificate for 127.0.0.1 and who signed it."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    signed = ("-CA", home / "ca.pem", "-CAkey", home / "ca.key", "-CAcreateserial", "-days", "2")
    (home / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for words in (
        ("req", "-x509", *key, "-days", "2", "-subj", "/CN=CA", "-keyout", home / "ca.key", "-out", home / "ca.pem"),
        ("req", *key, "-subj", "/CN=server", "-keyout", home / "own.key", "-out", home / "own.csr"),
        ("x509", "-req", "-in", home / "own.csr", *signed, "-extfile", home / "names", "-out", home / "own.pem"),
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True)


@contextmanager
def nginx(home: Path, resumes: bool, each: int) -> Iterator[str]:
    """Serve pages named by their size; ``each``: requests on a connection."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for size in SIZES:
        (home / f"{size}.html").write_bytes(b"x" * size)
    (home / "log").unlink(missing_ok=True)
    paths = "".join(f" {n}_temp_path {home}/{n};\n" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    state = "on" if resumes else "off"
    (home / "conf").write_text(
        f"daemon off; master_process off; pid {home}/pid;\nevents {{}}\nhttp {{\n types {{ text/html html; }}\n"
        f" root {home};\n{paths} log_format own '$connection_requests $ssl_session_reused';\n"
        f" access_log {home}/log own; keepalive_requests {each};\n"
        f" ssl_protocols TLSv1.3; ssl_session_tickets {state}; ssl_session_cache off;\n"
        f" ssl_certificate {home}/own.pem; ssl_certificate_key {home}/own.key;\n"
        f" server {{ listen 127.0.0.1:{port} ssl; }}\n}}\n"
    )
    with subprocess.Popen(["nginx", "-c", home / "conf", "-e", home / "error"]) as process:
        try:
            while True:
                with contextlib.suppress(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                time.sleep(0.02)
            yield f"https://127.0.0.1:{port}/"
        finally:
            process.terminate()


async def over_tls(home: Path, url: str, page: int, batches: int, size: int) -> dict[str, float]:
    context = ssl.create_default_context(cafile=str(home / "ca.pem"))
    target = yarl.URL(f"{url}{page}.html")

    async def bare() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port, ssl=context)
        head = f"GET {target.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        assert len(await reader.read()) > page
        writer.close()

    settings = FetchSettings(allow_private=True, ca_file=str(home / "ca.pem"))
    async with Fetcher(settings, concurrency=4, per_host=1, environ={}) as fetcher:

        async def ours() -> None:
            answer = await fetcher.fetch(str(target))
            assert isinstance(answer, Response)
            assert answer.body is not None
            assert len(answer.body) == page

        ways = {"asyncio": bare, "fetcher": ours}
        least = dict.fromkeys(ways, float("inf"))
        for _ in range(batches):
            for name, get in ways.items():
                least[name] = min(least[name], await microseconds(get, size))
    return least


def measure_https(batches: int, size: int) -> None:
    print("us a GET; asyncio: one connection a page, whole handshakes\n")
    print(f"{'sessions':10}{'bytes':>9}{'new':>5}{'asyncio':>9}{'fetcher':>9}{'ratio':>7}{'resumed':>9}")
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        authority(home)
        for resumes in (False, True):
            for share, each in EACH.items():
                for page in SIZES:
                    with nginx(home, resumes, each) as url:
                        least = asyncio.run(over_tls(home, url, page, batches, size))
                    reused = (home / "log").read_text().split("\n").count("1 r")
                    made_new = batches * size // each if each < 1_000 else 0
                    resumed = f"{reused / made_new:.0%}" if made_new else "-"
                    bare, ours = least.values()
                    print(
                        f"{'resumed' if resumes else 'refused':10}{page:9}{share:>5}{bare:9.0f}{ours:9.0f}"
                        f"{ours / bare:7.2f}{resumed:>9}",
                        flush=True,
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=200, metavar="N")
    parser.add_argument("--size", type=int, default=20, metavar="N", help="requests a batch")
    parser.add_argument("--https", action="store_true", help="pages from nginx over TLS")
    arguments = parser.parse_args()
    print(*describe_machine(), sep="\n")
    if arguments.https:
        measure_https(arguments.batches, arguments.size)
        return
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listening,), daemon=True)
    server.start()
    listening.close()
    try:
        for name, least in asyncio.run(measure(url, arguments.batches, arguments.size)).items():
            print(f"{name:30} {least:6.1f} us")
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
