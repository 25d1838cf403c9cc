"""One browser process: started without a network, monitored, and ended with the crawler.

A small launcher program asks the kernel to kill the browser when the crawler ends, and passes the browser the two pipes
as descriptors 3 and 4. The browser's total memory limit also applies to each of its processes. Its profile is a
separate directory, which is locked while the crawler runs; profiles left by a killed crawler are removed at the next
start.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Self

from crawler.base.settings.parts import BrowserSettings
from crawler.web.browser.engines import Engine
from crawler.web.browser.pipe import Lost, Pipe

PREFIX = "browser-"
MEMORY_MOST = 2 * 2**30  # bytes of memory of all the browser's processes; beyond this the browser is restarted
WATCH = 0.2  # seconds between checks of the memory
ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}  # new targets wait until they are set up
LAUNCH = """
import ctypes, os, resource, signal, sys
parent, reads, writes, memory = (int(each) for each in sys.argv[1:5])
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != parent: sys.exit()
ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)
os.nice(10)
resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
open("/proc/self/oom_score_adj", "w").write("800")
os.dup2(reads, 250); os.dup2(writes, 251)
os.dup2(250, 3); os.dup2(251, 4)
os.closerange(5, 252)
os.execv(sys.argv[5], sys.argv[5:])
"""
_PROFILE = "/proc/self/cwd"  # short, however long the real path: a socket's name is limited to 107 bytes
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CHROME_DEVEL_SANDBOX")

# Each request of a page is paused and answered by the crawler. These switches disable the browser's own requests, and
# the requests that cannot be paused: the browser has no resolver, and its proxy is a port on which nothing can listen.
# The part of the browser that handles requests has no process of its own: such a process could end alone, and pages
# would lose requests unnoticed.
_SWITCHES = """
--headless --remote-debugging-pipe --no-startup-window --proxy-server=socks5://127.0.0.1:0
--proxy-bypass-list=<-loopback> --webrtc-ip-handling-policy=disable_non_proxied_udp
--force-webrtc-ip-handling-policy=disable_non_proxied_udp --disable-quic --no-pings --disable-background-networking
--disable-component-update --disable-component-extensions-with-background-pages --disable-domain-reliability
--disable-default-apps --disable-extensions --disable-sync --disable-client-side-phishing-detection --disable-breakpad
--disable-crash-reporter --metrics-recording-only --no-first-run --no-default-browser-check --password-store=basic
--deny-permission-prompts --block-new-web-contents --disable-notifications --disable-gpu --disable-dev-shm-usage
--mute-audio --hide-scrollbars --disable-hang-monitor --disable-renderer-backgrounding
--disable-background-timer-throttling --disable-backgrounding-occluded-windows --disable-site-isolation-trials
--renderer-process-limit=8 --js-flags=--max-old-space-size=512 --enable-features=NetworkServiceInProcess2
"""
_NOT = """
IsolateOrigins site-per-process IsolateSandboxedIframes OptimizationHints MediaRouter Translate DialMediaRouteProvider
InterestFeedContentSuggestions AutofillServerCommunication CertificateTransparencyComponentUpdater WebTransport
NetworkTimeServiceQuerying PreconnectToSearch NavigationPredictor Prerender2 Reporting NetworkErrorLogging
BackForwardCache PaintHolding WebUIOmniboxPopup WebUIOmniboxAimPopup WebUIOmniboxFullPopup
"""


class BrowserProcess:
    """A browser process. ``pages``: how many pages were started in it; ``active``: how many of these are still open. A
    ``worn`` process gets no more pages."""

    launch = LAUNCH  # the program that launches it

    def __init__(
        self, engine: Engine, process: asyncio.subprocess.Process, pipe: Pipe, files: contextlib.ExitStack
    ) -> None:
        self.engine = engine
        self.pages = 0
        self.active = 0
        self.worn = False
        self.pipe = pipe
        self._process, self._files = process, files
        self._watch = asyncio.create_task(self._watch_memory())
        pipe.gone.add_done_callback(lambda _: self.kill())

    @classmethod
    async def start(cls, engine: Engine, user_agent: str, directory: Path, settings: BrowserSettings) -> Self:
        remove_leftovers(directory)
        with contextlib.ExitStack() as files:
            profile = _new_profile(directory, files)
            (its_reads, writes), (reads, its_writes) = os.pipe(), os.pipe()
            pipe = await Pipe.connect(reads, writes)
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-ISc", cls.launch, *map(str, (os.getpid(), its_reads, its_writes, MEMORY_MOST))),
                    *(engine.path, *cls.switches(user_agent, profile, settings)),
                    pass_fds=(its_reads, its_writes),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                    env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
                    | {"HOME": str(profile), "TMPDIR": _PROFILE, "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
                    cwd=profile,
                )
            finally:
                os.close(its_reads)
                os.close(its_writes)
            pipe.send("Target.setAutoAttach", ATTACH)
            return cls(engine, process, pipe, files.pop_all())

    @classmethod
    def switches(cls, user_agent: str, profile: Path, settings: BrowserSettings) -> list[str]:
        return [
            *_SWITCHES.split(),
            f"--disable-features={','.join(_NOT.split())}",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-agent={user_agent}",
            f"--user-data-dir={profile}",
            *(("--no-sandbox",) if settings.no_sandbox else ()),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    async def connected(self) -> Pipe:
        """Return the connection that controls a page."""
        return self.pipe

    async def _ids(self) -> set[int]:
        return {each["id"] for each in (await self.pipe.call("SystemInfo.getProcessInfo"))["processInfo"]}

    async def _watch_memory(self) -> None:
        """Kill the browser's largest process if all its processes together use too much memory. The page in that
        process is lost, and no more pages are started."""
        with contextlib.suppress(Lost):
            while True:
                await asyncio.sleep(WATCH)
                if not self.active:
                    continue
                sizes = {pid: _own_memory(pid) for pid in await self._ids()}
                if sum(sizes.values()) > MEMORY_MOST:
                    self.worn = True
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(max(sizes, key=lambda pid: sizes[pid]), signal.SIGKILL)

    def kill(self) -> None:
        self.worn = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Kill the browser with all its processes, and remove its profile."""
        self.kill()
        self._watch.cancel()
        await self._process.wait()
        self.pipe.close()
        await asyncio.to_thread(self._files.close)


def _own_memory(pid: int) -> int:
    """Return the bytes of a process's memory that are not backed by files."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:  # the process has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(("RssAnon", "RssShmem")))


def _new_profile(directory: Path, files: contextlib.ExitStack) -> Path:
    """Create a profile, which is locked and exists until ``files`` is closed."""
    directory.mkdir(parents=True, exist_ok=True)
    profile = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
    lock = os.open(profile, os.O_RDONLY)
    files.callback(os.close, lock)
    files.callback(shutil.rmtree, profile, ignore_errors=True)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return profile


def remove_leftovers(directory: Path) -> None:
    """Remove the profiles that killed crawlers left behind, and the directory if it is empty."""
    for profile in directory.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as files:  # a running crawler holds its lock
            lock = os.open(profile, os.O_RDONLY)
            files.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(profile, ignore_errors=True)
    with contextlib.suppress(OSError):  # another worker has files there
        directory.rmdir()
