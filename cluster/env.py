"""The real outside: clocks, timers, sockets, files and threads of this machine.

Knows: asyncio, uvloop (where a loop is made), os. Must not know: Raft, leases, the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import random
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from cluster.address import Address
from cluster.descriptors import LockedFile, keep_connection_from_children
from cluster.directories import refuse_gap, sync_directory
from cluster.ports import Disk, File, Handle, Listener
from cluster.sockets import SocketListener, open_sockets, tune

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def boot_clock() -> float:
    """Seconds on a monotonic clock that counts suspension: CLOCK_BOOTTIME, or CLOCK_MONOTONIC where it does so (macOS)."""
    return time.clock_gettime(_BOOTTIME if _BOOTTIME is not None else time.CLOCK_MONOTONIC)


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop: uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def process_id() -> int:
    """This process's number; after a fork the child has another."""
    return os.getpid()


def in_forked_children(call: Callable[[], object]) -> None:
    """Have ``call`` called in every process that is forked from this one, before anything else happens there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def entropy(count: int) -> bytes:
    """Unpredictable bytes, for what is made where no ``Env`` is at hand."""
    return os.urandom(count)


def default_node_id() -> str:
    """What people see of this process: ``hostname:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


class RealFile:
    """See ``ports.File``."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def pwrite(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            view = view[written:]
            offset += written

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def preallocate(self, size: int) -> None:
        """Make the file at least this long, of zeros, with its space reserved where the system can do that."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._fd, 0, size)
                return
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
        if self.size() < size:
            os.ftruncate(self._fd, size)

    def datasync(self) -> None:
        if hasattr(os, "fdatasync"):
            os.fdatasync(self._fd)
        else:
            # On macOS fsync leaves the data in the drive's cache; F_FULLFSYNC does not.
            fcntl.fcntl(self._fd, getattr(fcntl, "F_FULLFSYNC", 51))

    def close(self) -> None:
        os.close(self._fd)


def write_file(path: str, data: bytes) -> None:
    """Write a file beside and rename it when it is whole and synced; only its owner may read it. Raises OSError; then nothing is there."""
    beside = f"{path}.{os.getpid()}.new"
    fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        file = RealFile(fd)
        try:
            file.pwrite(data, 0)
            file.datasync()
        finally:
            file.close()
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    sync_directory(os.path.dirname(os.path.abspath(path)))


class RealDisk:
    """See ``ports.Disk``. Holds the lock on the directory until closed."""

    LOCK_NAME = "lock"

    def __init__(self, directory: str) -> None:
        self._directory = directory
        refuse_gap(directory)
        self._create()
        self._lock = LockedFile(self._path(self.LOCK_NAME))

    def _create(self) -> None:
        """Make the directory, and what is missing above it, so that it is still there after a power cut."""
        path, missing = os.path.abspath(self._directory), []
        while not os.path.exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        for made in missing:
            sync_directory(os.path.dirname(made))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def open(self, name: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(self._path(name), flags, 0o600))

    def exists(self, name: str) -> bool:
        return os.path.exists(self._path(name))

    def listdir(self) -> list[str]:
        return sorted(name for name in os.listdir(self._directory) if name != self.LOCK_NAME)

    def read(self, name: str) -> bytes:
        with open(self._path(name), "rb") as file:
            return file.read()

    def rename(self, old: str, new: str) -> None:
        os.replace(self._path(old), self._path(new))

    def remove(self, name: str) -> None:
        os.unlink(self._path(name))

    def sync_directory(self) -> None:
        sync_directory(self._directory)

    def close(self) -> None:
        self._lock.close()


def _end_unwanted(task: asyncio.Task[Any]) -> None:
    """A call that nobody waits for any more has come to its end, or to a connection all the same."""
    if not task.cancelled() and task.exception() is None:
        task.result()[0].abort()


class RealEnv:
    """See ``ports.Env``: this machine, on one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._random = random.Random(os.urandom(16))
        self._jobs: dict[str, queue.SimpleQueue[Callable[[], None] | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.clock = boot_clock
        self.wall = time.time
        self.entropy = os.urandom

    @property
    def random(self) -> random.Random:
        return self._random

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: Any) -> Handle:
        return self._loop.call_later(delay_s, fn, *args)

    def call_soon(self, fn: Callable[..., object], *args: Any) -> Handle:
        return self._loop.call_soon(fn, *args)

    def call_from_thread(self, fn: Callable[..., object], *args: Any) -> None:
        self._loop.call_soon_threadsafe(fn, *args)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = self._loop.create_task(work, name=name)
        # The loop keeps only a weak reference to a task; one without another is collected while it runs.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def listen(
        self,
        address: Address,
        factory: Callable[[], asyncio.Protocol],
        backlog: int = 1024,
        make_room: Callable[[], bool] | None = None,
    ) -> Listener:
        sockets = await open_sockets(self._loop, address, backlog)
        return SocketListener(self._loop, address, sockets, factory, make_room)

    async def dial(
        self, address: Address, factory: Callable[[], asyncio.Protocol], timeout_s: float
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        if address.is_unix:
            opening: Any = self._loop.create_unix_connection(factory, address.path)
        else:
            opening = self._connect(address, factory, self.clock() + timeout_s)
        transport, protocol = await asyncio.wait_for(opening, timeout_s)
        keep_connection_from_children(transport)
        tune(transport.get_extra_info("socket"))
        return transport, protocol

    async def _connect(self, address: Address, factory: Callable[[], asyncio.Protocol], until: float) -> Any:
        """Resolve, then try each address, with its share of the time that is left: the first may be one that swallows everything.

        Not in one step: uvloop leaves a resolution that was called off to complain into the log.
        """
        failure: Exception | None = None
        found = await self._loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        for left, (*_, target) in zip(range(len(found), 0, -1), found, strict=True):
            opening = self._loop.create_connection(factory, str(target[0]), int(target[1]))
            try:
                return await (opening if left == 1 else self._within(opening, (until - self.clock()) / left))
            except OSError as error:
                failure = error
        raise failure or OSError(f"{address.host} has no address")

    async def _within(self, opening: Coroutine[Any, Any, Any], limit_s: float) -> Any:
        """Raises TimeoutError. Unlike ``wait_for`` of Python 3.10 and 3.11 it loses no cancellation that comes together with an answer."""
        task = self._loop.create_task(opening)
        wanted = False
        try:
            await asyncio.wait({task}, timeout=limit_s)
            wanted = task.done()
        finally:
            if not wanted:
                task.cancel()
                task.add_done_callback(_end_unwanted)
        if not wanted:
            raise TimeoutError("no answer")
        return task.result()

    def disk(self, directory: str) -> Disk:
        return RealDisk(directory)

    def on_disk_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        self._on_thread("tenure-disk", work, done)

    def on_work_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        self._on_thread("tenure-work", work, done)

    def _on_thread(self, name: str, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        """Each thread is started when it is first needed, and ends with ``close``."""
        jobs = self._jobs.get(name)
        if jobs is None:
            jobs = self._jobs[name] = queue.SimpleQueue()
            threading.Thread(target=self._run_jobs, args=(jobs,), name=name, daemon=True).start()

        def job() -> None:
            error: BaseException | None = None
            try:
                work()
            except BaseException as caught:
                error = caught
            # Of a closed loop nobody is left to be told.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(done, error)

        jobs.put(job)

    @staticmethod
    def _run_jobs(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while (job := jobs.get()) is not None:
            job()

    def close(self) -> None:
        """Stop the threads once their queues are done."""
        for jobs in self._jobs.values():
            jobs.put(None)
        self._jobs.clear()
