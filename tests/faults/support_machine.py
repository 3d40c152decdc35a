"""Faults of the machine under a node: a disk that is full, a wall clock that is set, file descriptors that run out.

Knows: Linux, and what may be missing of it. Must not know: the product.

Everything is made in a place of its own and ends with the process that asked for it, also when that is killed: the small disk is mounted in
a mount namespace that only its keeper and the nodes on it are in.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ANSWERS_WITHIN_S = 60.0
FAKETIME_LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"
FILL_CHUNK_BYTES = 1 << 20

# Run in a mount namespace of its own; the mount is gone when standard input ends.
_KEEPER = 'mount -t tmpfs -o "size=$1,mode=0700" tenure-faults "$2" && echo mounted && read _'

_PROBE = """
import sys, time
print(time.time() - float(sys.argv[1]), time.clock_gettime(time.CLOCK_BOOTTIME) - float(sys.argv[2]))
"""


class SmallDisk:
    """A tmpfs of ``size_bytes`` on ``directory``, seen only by who is started with ``prefix``; ``inside`` is its path from elsewhere."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self._directory = directory
        self._size_bytes = size_bytes
        self._keeper: subprocess.Popen[str] | None = None
        self.prefix: list[str] = []
        self.why_not = ""

    def mount(self) -> bool:
        """Whether it could be mounted; else ``why_not`` says what is in the way."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if not sys.platform.startswith("linux"):
            self.why_not = "a small disk is a tmpfs in a mount namespace, which only Linux has"
            return False
        for tool in ("unshare", "nsenter", "mount"):
            if shutil.which(tool) is None:
                self.why_not = f"{tool} is not installed (Debian: util-linux, mount)"
                return False
        own_user: list[str] = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        keep = ["unshare", *own_user, "--mount", "--propagation", "private", "sh", "-c", _KEEPER, "sh"]
        keeper = subprocess.Popen(
            [*keep, str(self._size_bytes), str(self._directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if keeper.stdout.readline() != "mounted\n":
            keeper.wait(ANSWERS_WITHIN_S)
            self.why_not = f"mounting a tmpfs is not permitted here: {keeper.stderr.read().strip()[:200]}"
            _close_pipes(keeper)
            return False
        self._keeper = keeper
        entering = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self.prefix = ["nsenter", *entering, "--mount", f"--target={keeper.pid}", "--"]
        return True

    @property
    def inside(self) -> Path:
        assert self._keeper is not None
        return Path(f"/proc/{self._keeper.pid}/root") / self._directory.relative_to("/")

    def fill(self) -> None:
        """Leave no byte free."""
        with contextlib.suppress(OSError), (self.inside / "filler").open("ab", buffering=0) as filler:
            while True:
                filler.write(bytes(FILL_CHUNK_BYTES))

    def empty(self) -> None:
        """Give the space back."""
        with contextlib.suppress(FileNotFoundError):
            (self.inside / "filler").unlink()

    def close(self) -> None:
        """Unmount: the nodes on it must have ended."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait(ANSWERS_WITHIN_S)
            _close_pipes(keeper)


def _close_pipes(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


@contextlib.contextmanager
def small_disk(directory: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """A ``SmallDisk`` for the time of a ``with`` block; the test is skipped where none can be had."""
    disk = SmallDisk(directory, size_bytes)
    if not disk.mount():
        pytest.skip(disk.why_not)
    try:
        yield disk
    finally:
        disk.close()


class WallClock:
    """What processes started with ``environ`` take for the time of day; it can be set while they run. No other clock is touched."""

    def __init__(self, file: Path, library: str) -> None:
        self._file = file
        self.set(0)
        self.environ = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, ahead_s: int) -> None:
        """So many seconds ahead of the real one; negative: behind."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead_s:+d}\n")
        new.rename(self._file)


def wall_clock(file: Path) -> WallClock | str:
    """A wall clock to set, or why there is none here."""
    found = sorted(glob.glob(FAKETIME_LIBRARIES))
    if not found:
        return "libfaketime is not installed (Debian: libfaketime)"
    clock = WallClock(file, found[0])
    why_not = _does_not_work(found[0], str(file.parent))
    return why_not or clock


@functools.cache
def _does_not_work(library: str, directory: str) -> str:
    """It must set this clock and no other: tried in a process that is a day ahead."""
    import time

    clock = WallClock(Path(directory) / "probe-of-the-wall-clock", library)
    clock.set(86_400)
    now = [repr(time.time()), repr(time.clock_gettime(time.CLOCK_BOOTTIME))]
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE, *now],
        env={**os.environ, **clock.environ},
        capture_output=True,
        text=True,
        timeout=ANSWERS_WITHIN_S,
        check=False,
    )
    try:
        wall_s, boot_s = (float(part) for part in probe.stdout.split())
    except ValueError:
        return f"libfaketime does not work here: {probe.stderr.strip()[-200:]}"
    if not 86_000 < wall_s < 87_000 or not 0 <= boot_s < 100:
        return f"libfaketime sets other clocks than the wall clock here: {wall_s:.0f} s, {boot_s:.0f} s"
    return ""


def forget_faketime(*pids: int) -> None:
    """What libfaketime leaves in shared memory of processes that were killed."""
    for name in (name for pid in pids for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}")):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/dev/shm/{name}")


def open_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@contextlib.contextmanager
def descriptors_limited(pid: int, limit: int) -> Iterator[None]:
    """The process may open no descriptor with this number or a larger one, for the time of a ``with`` block."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
