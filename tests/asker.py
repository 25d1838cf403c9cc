"""Has a starter run a module with the streams of this process: ``python -I -S tests/asker.py FD MODULE [WORD ...]``.

It stands for ``python -m MODULE`` in a shell's command, at a tenth of what loading that takes. FD: the starter's
socket, see ``tests/program.py``. It imports little, and nothing of this project.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    module, *words = sys.argv[2:]
    asked = {"words": words, "environment": dict(os.environ), "directory": os.getcwd(), "module": module}
    # As a program that a user starts: no limits and no world, and its secrets are real.
    request = json.dumps({**asked, "limits": {}, "world": None, "secrets": None}).encode()
    with socket.socket(fileno=int(sys.argv[1])) as starter:
        socket.send_fds(starter, [request], [theirs.fileno(), 0, 1, 2])
    theirs.close()
    pid = int(ours.recv(64))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(ours.recv(64).split()[0])
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
