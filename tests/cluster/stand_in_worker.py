"""Stands in for a worker process: it does what its first word says, and loads nothing that takes time."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> None:
    behaviour, descriptor = sys.argv[1], int(sys.argv[-1].partition("=")[2])
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rwb") as stream:

        def tell(**message: object) -> None:
            stream.write(json.dumps(message).encode() + b"\n")
            stream.flush()

        def ended(reason: str) -> None:
            tell(type="ended", reason=reason, seeds_fetched=1, last_seed_error=None)

        name = json.loads(stream.readline())["urls"][0]
        match behaviour:
            case "finishes":
                tell(type="said", text=f"{name} works")
                ended("finished")
            case "rereads":
                tell(type="reread")
                tell(type="said", text=json.loads(stream.readline())["urls"][0])
                ended("finished")
            case "fails":
                tell(type="failed", text="KeyError: 'x'", final=False)
            case "is-refused":
                tell(type="failed", text="another version", final=True)
            case "dies":
                stream.write(b'{"type":"ended"')  # half a word
                stream.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            case "dies-twice":  # in the directory that it is given
                with open(sys.argv[2], "ab") as file:
                    file.write(b"x")
                if os.path.getsize(sys.argv[2]) <= 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                ended("finished")
            case "leaves":
                ended("interrupted")
            case "reaches-a-limit" if name.endswith("0"):
                ended("max-time")
            case _:  # until it is told to stop
                tell(type="said", text=f"{name} {os.getpid()}")
                ended(json.loads(stream.readline())["reason"])


if __name__ == "__main__":
    main()
