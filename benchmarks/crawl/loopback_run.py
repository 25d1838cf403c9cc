"""Runs a module that may reach nothing but this machine, and samples its stages.

    python -m benchmarks.crawl.loopback_run FILE MODULE ARGUMENT...

The samples by stage, and the CPU time of the processes that it started and waited for, are written to FILE as JSON at
the end; ``-`` takes no samples. The interpreter itself
asks before it connects or looks up a name (PEP 578), and such a hook cannot be removed: no mistake in a crawler or in
the pages that are made up for it can send a request anywhere else.
"""

from __future__ import annotations

import os
import resource
import runpy
import socket
import sys
from ipaddress import IPv4Address
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec

from benchmarks.crawl.stage_samples import StageSamples, Taken


def check_event(event: str, arguments: tuple[object, ...]) -> None:
    """Raise PermissionError if a process wants to reach another machine, or to know its address."""
    if event in {"socket.connect", "socket.sendto"}:
        connection, address = arguments
        if isinstance(connection, socket.socket) and connection.family == socket.AF_UNIX:
            return
        _check_host(address[0] if isinstance(address, tuple) else address)
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        _check_host(arguments[0])


def _check_host(host: object) -> None:
    name = host.decode("latin-1") if isinstance(host, bytes) else host
    try:
        allowed = isinstance(name, str) and IPv4Address(name).is_loopback
    except ValueError:
        allowed = False
    if not allowed:
        raise PermissionError(f"a benchmark reaches only addresses in 127.0.0.0/8, not {host!r}")


def main() -> None:
    file, module, *arguments = sys.argv[1:]
    sys.addaudithook(check_event)
    sys.argv = [module, *arguments]
    samples = StageSamples()
    if file != "-":
        samples.start()
    owner = os.getpid()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        if file != "-" and os.getpid() == owner:
            samples.stop()
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken = Taken(dict(samples.counts), used.ru_utime + used.ru_stime)
            Path(file).write_bytes(msgspec.json.encode(taken))


if __name__ == "__main__":
    main()
