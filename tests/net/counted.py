"""What Linux counts of processes: memory, sockets, and how long they waited for a processor that others had.

Knows: /proc. Must not know: what the processes do.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


def peak_kb(pid: int) -> int:
    """The most memory that a process has had at a time."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


def sockets_of(pid: int) -> int:
    """How many sockets a process has open."""
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        # It may be closed meanwhile.
        with suppress(FileNotFoundError):
            count += os.readlink(descriptor).startswith("socket:")
    return count


class Processor(NamedTuple):
    """What a process had of the processors so far. ``waited_s``: its threads could have run and did not, since others had them."""

    ran_s: float
    waited_s: float

    def since(self, before: Processor) -> Processor:
        return Processor(self.ran_s - before.ran_s, self.waited_s - before.waited_s)


def processor_of(pid: int, but: Collection[int] = ()) -> Processor:
    """``but``: threads of it that do not count."""
    ran_ns = waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        # It may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(thread.name) not in but:
                ran, waited, _ = (thread / "schedstat").read_text().split()
                ran_ns, waited_ns = ran_ns + int(ran), waited_ns + int(waited)
    return Processor(ran_ns / 1e9, waited_ns / 1e9)
