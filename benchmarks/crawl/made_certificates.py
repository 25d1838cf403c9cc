"""Certificates for the addresses of a synthetic web, made by openssl: an authority of one run, and what it signs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from crawler.tools.bench.synthetic_web import ROW

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class CertificatesError(Exception):
    """Certificates cannot be made. The text is one line for the user."""


def authority(home: Path) -> Path:
    """Return the file of the authority of a directory."""
    return home / "authority.pem"


def make_certificates(home: Path, addresses: Iterable[str]) -> None:
    """Write an authority and certificates for these IP addresses into a directory. Raises CertificatesError.

    The addresses of a row share a certificate, which is then as large as usual ones."""
    names = list(addresses)
    _openssl(
        "req", "-x509", *_CURVE, "-days", "2", "-subj", "/CN=bench", "-keyout", _key(home), "-out", authority(home)
    )
    for row in range(-(-len(names) // ROW)):
        key, certificate = home / f"{row}.key", home / f"{row}.pem"
        request, extensions = home / "request", home / "extensions"
        own = ",".join(f"IP:{name}" for name in names[row * ROW : (row + 1) * ROW])
        extensions.write_text(f"subjectAltName={own}\nauthorityKeyIdentifier=keyid\n")
        _openssl("req", *_CURVE, "-subj", "/CN=host", "-keyout", key, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-CA", authority(home), "-CAkey", _key(home), "-CAcreateserial"),
            *("-days", "2", "-extfile", extensions, "-out", certificate),
        )


def _key(home: Path) -> Path:
    return home / "authority.key"


def _openssl(*words: str | Path) -> None:
    try:
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    except FileNotFoundError as error:
        raise CertificatesError("pages over https need the program openssl, which is not installed") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CertificatesError(f"openssl made no certificate: {said[-1] if said else error.returncode}") from error
