"""A disk that forgets what was not synced, fails when told to, and ends the node at any of its calls.

Knows: ``ports.Disk`` and what a kernel and a drive may do with unsynced writes. Must not know: what the files mean.

``SimDisk`` is the drive: it lives through many lives of a node. ``mount`` gives the ``ports.Disk`` of one life;
``crash_process`` ends that life and keeps all that the kernel had; ``crash_power`` ends it and keeps what was synced,
and of everything else any part: unsynced writes may be lost, kept or torn, sector by sector and in any order, and
creations, renames and removals without a directory sync likewise. All of it is drawn from the generator that the disk
is given, so that a seed says everything.
"""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field
from typing import TypeVar

from cluster.ports import Disk, File

SECTOR_BYTES = 512
T = TypeVar("T")


class Crash(BaseException):
    """The node ended inside this call. Not an Exception: no code may go on after it."""


class _Inode:
    """One file: what the kernel shows, what the drive has, and what lies between."""

    def __init__(self) -> None:
        self.shown = bytearray()
        self.kept = bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []

    def write(self, data: bytes, offset: int) -> None:
        _put(self.shown, data, offset)
        self.unsynced.append((offset, bytes(data)))

    def resize(self, size: int) -> None:
        _resize(self.shown, size)
        self.unsynced.append((size, None))

    def sync(self) -> None:
        self.settle(self.unsynced)
        self.unsynced.clear()

    def settle(self, writes: list[tuple[int, bytes | None]]) -> None:
        for place, data in writes:
            if data is None:
                _resize(self.kept, place)
            else:
                _put(self.kept, data, place)


def _put(content: bytearray, data: bytes, offset: int) -> None:
    if len(content) < offset:
        _resize(content, offset)
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


@dataclass
class _Rename:
    """A change of the directory: ``old`` goes (if it is not empty), ``new`` names the file (if there is one)."""

    old: str
    new: str
    inode: _Inode | None

    def apply(self, names: dict[str, _Inode]) -> None:
        names.pop(self.old, None)
        if self.inode is not None:
            names[self.new] = self.inode


@dataclass
class SimDisk:
    """The drive of one data directory.

    Attributes:
        calls: how many disk calls there were, over all lives.
        crash_at: the call (counting from 1) inside which the node ends; a write may then have been done in part.
        faults: call -> the error that it raises. A failed sync loses what it should have kept, also for later syncs.
        failing: kind of call (as in ``log``) -> the error that every such call raises.
        capacity_bytes: when the files' sizes would exceed this, the call raises ENOSPC.
        log: every call as ``"kind name"``.
    """

    rng: random.Random = field(default_factory=lambda: random.Random(0))
    calls: int = 0
    crash_at: int = 0
    faults: dict[int, OSError] = field(default_factory=dict)
    failing: dict[str, OSError] = field(default_factory=dict)
    capacity_bytes: int = 1 << 62
    log: list[str] = field(default_factory=list)
    _names: dict[str, _Inode] = field(default_factory=dict)
    _kept_names: dict[str, _Inode] = field(default_factory=dict)
    _unsynced: list[_Rename] = field(default_factory=list)
    _life: _Life | None = None

    def mount(self) -> Disk:
        """Raises BlockingIOError while another life has it."""
        if self._life is not None:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        self._life = _Life(self)
        return self._life

    def crash_process(self) -> None:
        """The process dies; the machine goes on."""
        if self._life is not None:
            self._life.over = True
            self._life = None

    def crash_power(self, rng: random.Random | None = None) -> None:
        """The machine dies; what is left of unsynced things is drawn from ``rng``, or from the disk's own."""
        self.rng = rng or self.rng
        self.crash_process()
        for change in self._some(self._unsynced):
            change.apply(self._kept_names)
        inodes = {id(inode): inode for inode in (*self._names.values(), *self._kept_names.values())}
        for inode in inodes.values():
            inode.settle(self._torn(inode.unsynced))
            inode.unsynced.clear()
            inode.shown[:] = inode.kept
        self._names = dict(self._kept_names)
        self._unsynced.clear()

    def write_back(self) -> None:
        """The kernel has written everything to the drive by itself, as it does after a while, asked or not."""
        for inode in self._names.values():
            inode.sync()
        self.sync_names()

    def files(self) -> dict[str, bytes]:
        """What the kernel shows now."""
        return {name: bytes(inode.shown) for name, inode in sorted(self._names.items())}

    def set_file(self, name: str, data: bytes | None) -> None:
        """Replace, make or remove (None) a file behind everyone's back, durably."""
        self._names.pop(name, None)
        if data is not None:
            inode = self._names[name] = _Inode()
            inode.write(data, 0)
            inode.sync()
        self._kept_names = dict(self._names)
        self._unsynced.clear()

    def copy(self, rng: random.Random) -> SimDisk:
        """The same files, settled, on another drive."""
        other = SimDisk(rng)
        for name, data in self.files().items():
            other.set_file(name, data)
        return other

    # What a power cut leaves.

    def _some(self, items: list[T]) -> list[T]:
        """None, all, the first few, or any of them."""
        choice = self.rng.randrange(4)
        if choice == 0:
            return []
        if choice == 1:
            return list(items)
        if choice == 2:
            return items[: self.rng.randint(0, len(items))]
        return [item for item in items if self.rng.random() < 0.5]

    def _torn(self, writes: list[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
        pieces: list[tuple[int, bytes | None]] = []
        for place, data in writes:
            if data is None:
                pieces.append((place, None))
                continue
            start = 0
            while start < len(data):
                end = min(len(data), start + SECTOR_BYTES - (place + start) % SECTOR_BYTES)
                pieces.append((place + start, data[start:end]))
                start = end
        kept = self._some(pieces)
        if kept and self.rng.random() < 0.5:
            # A drive writes sectors whole, a kernel copies bytes: the last piece may end anywhere.
            place, data = kept[-1]
            if data is not None:
                kept[-1] = (place, data[: self.rng.randint(0, len(data))])
        return kept

    # One call.

    def call(self, life: _Life, kind: str, name: str) -> bool:
        """Count a call. True: the node ends inside it. Raises the fault that is planned for it, before anything is done."""
        if life.over:
            raise Crash(f"{kind} {name} in a life that is over")
        self.calls += 1
        self.log.append(f"{kind} {name}")
        if (error := self.faults.get(self.calls) or self.failing.get(kind)) is not None:
            raise error
        return self.calls == self.crash_at

    def crash(self) -> None:
        self.crash_process()
        raise Crash(f"at call {self.calls}: {self.log[-1]}")

    def reserve(self, inode: _Inode, size: int) -> None:
        used = sum(len(other.shown) for other in self._names.values() if other is not inode)
        if size > len(inode.shown) and used + size > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")

    def find(self, name: str) -> _Inode:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        return self._names[name]

    def names(self) -> list[str]:
        return sorted(self._names)

    def change(self, old: str, new: str, inode: _Inode | None) -> None:
        change = _Rename(old, new, inode)
        change.apply(self._names)
        self._unsynced.append(change)

    def sync_names(self) -> None:
        self._kept_names = dict(self._names)
        self._unsynced.clear()

    def unlock(self, life: _Life) -> None:
        if self._life is life:
            self.crash_process()


class _Life:
    """See ``ports.Disk``: the drive as one life of a node sees it."""

    def __init__(self, drive: SimDisk) -> None:
        self._drive = drive
        self.over = False

    def _call(self, kind: str, name: str) -> None:
        """Calls that a crash finds either done or not done; it is drawn which."""
        if self._drive.call(self, kind, name):
            self._drive.crash()

    def open(self, name: str, *, create: bool = False) -> File:
        ends = self._drive.call(self, "create" if create else "open", name)
        if create and name not in self._drive.names() and (not ends or self._drive.rng.random() < 0.5):
            self._drive.change("", name, _Inode())
        if ends:
            self._drive.crash()
        return _SimFile(self._drive, self, name, self._drive.find(name))

    def exists(self, name: str) -> bool:
        self._call("exists", name)
        return name in self._drive.names()

    def listdir(self) -> list[str]:
        self._call("listdir", "")
        return self._drive.names()

    def read(self, name: str) -> bytes:
        self._call("read", name)
        return bytes(self._drive.find(name).shown)

    def rename(self, old: str, new: str) -> None:
        ends = self._drive.call(self, "rename", f"{old} {new}")
        if not ends or self._drive.rng.random() < 0.5:
            self._drive.change(old, new, self._drive.find(old))
        if ends:
            self._drive.crash()

    def remove(self, name: str) -> None:
        ends = self._drive.call(self, "remove", name)
        if not ends or self._drive.rng.random() < 0.5:
            self._drive.find(name)
            self._drive.change(name, "", None)
        if ends:
            self._drive.crash()

    def sync_directory(self) -> None:
        ends = self._drive.call(self, "syncdir", "")
        if not ends or self._drive.rng.random() < 0.5:
            self._drive.sync_names()
        if ends:
            self._drive.crash()

    def close(self) -> None:
        self._drive.unlock(self)


class _SimFile:
    """See ``ports.File``."""

    def __init__(self, drive: SimDisk, life: _Life, name: str, inode: _Inode) -> None:
        self._drive = drive
        self._life = life
        self._name = name
        self._inode = inode
        self._open = True

    def _begin(self, kind: str) -> bool:
        if not self._open:
            raise OSError(errno.EBADF, "Bad file descriptor", self._name)
        return self._drive.call(self._life, kind, self._name)

    def pwrite(self, data: bytes, offset: int) -> None:
        rng = self._drive.rng
        try:
            ends = self._begin("pwrite")
            self._drive.reserve(self._inode, offset + len(data))
        except OSError:
            # A write that fails may have written a part.
            if self._open:
                self._inode.write(data[: rng.randint(0, len(data) // 2)], offset)
            raise
        if ends:
            self._inode.write(data[: rng.randint(0, len(data))], offset)
            self._drive.crash()
        self._inode.write(data, offset)

    def pread(self, size: int, offset: int) -> bytes:
        if self._begin("pread"):
            self._drive.crash()
        return bytes(self._inode.shown[offset : offset + size])

    def size(self) -> int:
        return len(self._inode.shown)

    def truncate(self, size: int) -> None:
        self._resize("truncate", size)

    def preallocate(self, size: int) -> None:
        self._resize("preallocate", max(size, len(self._inode.shown)))

    def _resize(self, kind: str, size: int) -> None:
        ends = self._begin(kind)
        self._drive.reserve(self._inode, size)
        if not ends or self._drive.rng.random() < 0.5:
            self._inode.resize(size)
        if ends:
            self._drive.crash()

    def datasync(self) -> None:
        try:
            ends = self._begin("datasync")
        except OSError:
            # The kernel marks the pages clean all the same: what was not written now never will be.
            self._inode.unsynced.clear()
            raise
        if not ends or self._drive.rng.random() < 0.5:
            self._inode.sync()
        if ends:
            self._drive.crash()

    def close(self) -> None:
        self._open = False
