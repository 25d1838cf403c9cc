"""A small nginx on loopback that serves pages over TLS and logs which handshakes resumed a session."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.needs import need

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class TlsServer:
    """``port``, and what the server's log says."""

    def __init__(self, home: Path, port: int) -> None:
        self.port = port
        self._log = home / "access.log"

    def log(self, lines: int) -> list[str]:
        """The lines of the log, once there are so many: ``PATH r`` for a resumed session and ``PATH .`` otherwise."""
        deadline = time.monotonic() + 20
        while len(found := self._log.read_text().splitlines()) < lines and time.monotonic() < deadline:
            time.sleep(0.01)
        return found


@contextmanager
def nginx(home: Path, certificate: tuple[Path, Path], *directives: str) -> Iterator[TlsServer]:
    """One connection for each request."""
    program = need("nginx", "nginx-light")
    home.mkdir()
    (home / "page.html").write_text("<p>hello</p>")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    own = [*directives, f"ssl_certificate {certificate[0]}", f"ssl_certificate_key {certificate[1]}"]
    own += [f"{name}_temp_path {home}/{name}" for name in TEMPORARY]
    text = "".join(f" {line};\n" for line in own)
    (home / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {home}/pid; error_log {home}/error.log;\nevents {{}}\n"
        f"http {{\n types {{ text/html html; }}\n keepalive_timeout 0;\n root {home};\n{text}"
        f" log_format own '$uri $ssl_session_reused';\n access_log {home}/access.log own;\n"
        f" server {{ listen 127.0.0.1:{port} ssl; try_files /page.html =404; }}\n}}\n"
    )
    with subprocess.Popen([program, "-c", home / "nginx.conf", "-e", home / "error.log"]) as process:
        try:
            _wait(port, process)
            yield TlsServer(home, port)
        finally:
            process.terminate()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert process.poll() is None, "nginx has ended"
            assert time.monotonic() < deadline, "nginx does not listen"
            time.sleep(0.02)
