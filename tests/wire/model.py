"""The reference model of ``cluster._wire`` in plain Python: one list, no cleverness.

Knows: the contract of the classes and docs/protocol.md. Must not know: how the compiled module does it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import msgpack

from cluster.limits import LEASE_MAX_MS, LEASE_MIN_MS, MAX_LEADERS_MAX, METADATA_MAX_BYTES, NODE_ID_MAX_BYTES

_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_\-:./]{0,254}")
_TOKEN_MAX = 2**63 - 1
_NEW = (1, 12)
_ARITY = {1: 9, 3: 5, 4: 2, 5: 5, 6: 3, 12: 3, 13: 4}


class Unreadable(Exception):
    pass


class Parser:
    """Reads the encodings that the hot path takes, and refuses every other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise Unreadable
        self.at += size
        return self.data[self.at - size : self.at]

    def array(self) -> int:
        head = self.take(1)[0]
        if head & 0xF0 != 0x90:
            raise Unreadable
        return head & 0x0F

    def uint(self, low: int = 0, high: int = 2**64 - 1) -> int:
        head = self.take(1)[0]
        if head >= 0x80:
            if not 0xCC <= head <= 0xCF:
                raise Unreadable
            value = int.from_bytes(self.take(1 << (head - 0xCC)), "big")
        else:
            value = head
        if not low <= value <= high:
            raise Unreadable
        return value

    def bin(self, low: int, high: int) -> bytes:
        head = self.take(1)[0]
        if head == 0xC4:
            size = self.take(1)[0]
        elif head == 0xC5:
            size = int.from_bytes(self.take(2), "big")
            if size < 256:
                raise Unreadable
        else:
            raise Unreadable
        if not low <= size <= high:
            raise Unreadable
        return self.take(size)

    def name(self) -> bytes:
        name = self.bin(1, 255)
        if not _NAME.fullmatch(name):
            raise Unreadable
        return name


def read_operation(data: bytes) -> tuple[int, bytes]:
    """(code, name or empty) of an operation for the hot path; raises Unreadable for any other."""
    parser = Parser(data)
    arity = parser.array()
    code = parser.uint()
    if _ARITY.get(code) != arity:
        raise Unreadable
    name = b""
    if code in (1, 3, 5, 6, 13):
        parser.bin(16, 16)
        name = parser.name()
    if code == 1:
        lease_ms = parser.uint(LEASE_MIN_MS, LEASE_MAX_MS)
        parser.uint(1, MAX_LEADERS_MAX)
        parser.uint(0, lease_ms)
        parser.uint(0, _TOKEN_MAX)
        parser.bin(0, NODE_ID_MAX_BYTES)
        parser.bin(0, METADATA_MAX_BYTES)
    elif code == 12:
        parser.uint(LEASE_MIN_MS, LEASE_MAX_MS)
        parser.bin(0, NODE_ID_MAX_BYTES)
    elif code != 6:
        parser.uint(0, _TOKEN_MAX)
    if code == 3:
        parser.uint(LEASE_MIN_MS, LEASE_MAX_MS)
    elif code == 5:
        parser.uint(0, 4)
    if parser.at != len(data):
        raise Unreadable
    return code, name


@dataclass
class Queued:
    to: tuple[str, int, int]  # ("hot", conn_id, rid) or ("slow", ticket, 0)
    operation: bytes
    dropped: bool = False


class ModelIntake:
    def __init__(self, level: int, max_ops: int, max_bytes: int, queue_max: int) -> None:
        self.level = level
        self.max_ops = max_ops
        self.max_bytes = max_bytes
        self.queue_max = queue_max
        self.bytes_max = max(256 * queue_max, max_bytes)
        self.epoch = 0
        self.waited: set[bytes] = set()
        self.queue: list[Queued] = []

    @property
    def queued(self) -> int:
        return sum(not item.dropped for item in self.queue)

    def takes(self, new: bool) -> bool:
        factor = 1 if new else 2
        return (
            len(self.queue) < factor * self.queue_max
            and sum(len(i.operation) for i in self.queue) < factor * self.bytes_max
        )

    def offer(self, conn_id: int, payload: bytes) -> bool:
        """Whether the payload was taken for the hot path."""
        parser = Parser(payload)
        try:
            if parser.array() != 3:
                return False
            rid = parser.uint(1)
            epoch = parser.uint(1)
            code, name = read_operation(payload[parser.at :])
        except Unreadable:
            return False
        if epoch != self.epoch or not self.takes(code in _NEW) or (code == 1 and name in self.waited):
            return False
        self.queue.append(Queued(("hot", conn_id, rid), payload[parser.at :]))
        return True

    def add(self, operation: bytes, ticket: int) -> None:
        self.queue.append(Queued(("slow", ticket, 0), operation))

    def drop(self, conn_id: int) -> int:
        mine = [i for i in self.queue if i.to[:2] == ("hot", conn_id) and not i.dropped]
        for item in mine:
            item.dropped = True
        return len(mine)

    def seal(self, stamp_ms: int) -> ModelSealed | None:
        taken: list[Queued] = []
        size = 24
        passed = 0
        for item in self.queue:
            if len(taken) == self.max_ops:
                break
            if not item.dropped:
                if taken and size + len(item.operation) > self.max_bytes:
                    break
                taken.append(item)
                size += len(item.operation)
            passed += 1
        del self.queue[:passed]
        if not taken:
            return None
        header = struct.pack("<BBHIQq", self.level, 0, 0, len(taken), self.epoch, stamp_ms)
        return ModelSealed(taken, header + b"".join(i.operation for i in taken))

    def take_all(self) -> ModelSealed | None:
        taken = [i for i in self.queue if not i.dropped]
        self.queue.clear()
        return ModelSealed(taken, b"") if taken else None


class ModelSealed:
    def __init__(self, items: list[Queued], batch: bytes) -> None:
        self.items = items
        self.batch = batch
        self.count = len(items)

    def route(self, answers: list[bytes]) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
        frames: dict[int, bytes] = {}
        slow: list[tuple[int, bytes]] = []
        for item, answer in zip(self.items, answers, strict=True):
            if item.to[0] == "slow":
                slow.append((item.to[1], answer))
            else:
                reply = b"\x92" + msgpack.packb(item.to[2]) + answer
                frames[item.to[1]] = frames.get(item.to[1], b"") + struct.pack(">I", len(reply)) + reply
        return list(frames.items()), slow


class ModelReader:
    def __init__(self, intake: ModelIntake, conn_id: int, frame_max: int) -> None:
        self.intake = intake
        self.conn_id = conn_id
        self.frame_max = frame_max
        self.data = b""
        self.broken = False

    def feed(self, data: bytes) -> list[bytes] | None:
        """The diverted payloads; None where the stream is broken."""
        diverted: list[bytes] = []
        self.data += data
        while not self.broken and len(self.data) >= 4:
            size = int.from_bytes(self.data[:4], "big")
            if size == 0 or size > self.frame_max:
                self.broken = True
                break
            if len(self.data) < 4 + size:
                break
            payload, self.data = self.data[4 : 4 + size], self.data[4 + size :]
            if not self.intake.offer(self.conn_id, payload):
                diverted.append(payload)
        return None if self.broken else diverted
