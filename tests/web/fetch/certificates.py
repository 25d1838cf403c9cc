"""Certificates for tests, made by openssl."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.needs import need


def date(days: float) -> str:
    """A day from now, as openssl takes it."""
    return (datetime.now(UTC) + timedelta(days)).strftime("%Y%m%d%H%M%SZ")


class Authority:
    """A certificate authority in a directory. ``file`` is its certificate."""

    def __init__(self, directory: Path, *extensions: str) -> None:
        self._directory = directory
        self.file = directory / "ca.pem"
        self._key = directory / "ca.key"
        self._settings = directory / "ca.cnf"
        self._settings.write_text(
            "[ca]\ndefault_ca=own\n[own]\n"
            f"database={directory}/index\nnew_certs_dir={directory}\ncertificate={self.file}\nprivate_key={self._key}\n"
            "rand_serial=yes\ndefault_md=sha256\nunique_subject=no\npolicy=any\n[any]\ncommonName=supplied\n"
        )
        (directory / "index").touch()
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", "/CN=Test authority", "-keyout", self._key, "-out", self.file),
            *(word for extension in extensions for word in ("-addext", extension)),
        )

    def _openssl(self, *words: str | Path) -> None:
        subprocess.run([need("openssl", "openssl"), *words], check=True, capture_output=True)

    def server(self, names: str, *dates: str) -> ssl.SSLContext:
        """The context of a server with a certificate for ``names`` (as in subjectAltName). ``dates``: when it begins
        and ends, as in 20200101000000Z."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.files(names, *dates))
        return context

    def files(self, names: str, *dates: str) -> tuple[Path, Path]:
        """The certificate of a server and its key."""
        stem = self._directory / str(abs(hash((names, dates))))
        key, request, certificate = stem.with_suffix(".key"), stem.with_suffix(".csr"), stem.with_suffix(".pem")
        extensions = stem.with_suffix(".cnf")
        extensions.write_text(f"subjectAltName={names}\n")
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=server"),
            *("-keyout", key, "-out", request),
        )
        begin, end = dates or (date(-1), date(1))
        self._openssl(
            *("ca", "-batch", "-config", self._settings, "-startdate", begin, "-enddate", end, "-notext"),
            *("-in", request, "-extfile", extensions, "-out", certificate),
        )
        return certificate, key
