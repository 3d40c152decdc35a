"""Every reader of bytes that may come from a stranger, or from a damaged disk: what it is given first, and what it may answer.

Knows: each reader, its formats' checksums. Must not know: how inputs are mutated.
"""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

from cluster import _peer
from cluster._table import LEVEL, LeaseTable
from cluster._wire import FrameReader, Intake, WireError
from cluster.codec import pack, unpack, unpack_stream
from cluster.errors import UsageError
from cluster.limits import FRAME_MAX_BYTES
from cluster.net.handshake import NONCE_BYTES, AcceptorHandshake, DialerHandshake, Refused
from cluster.ports import Hello, Welcome
from cluster.secrets import Secrets, parse_secrets
from cluster.server.shapes import fault
from cluster.storage import meta, snapshots
from cluster.storage import record as r
from cluster.storage.damage import StorageDamaged
from cluster.storage.replay import Segment, replay
from tests.fuzz.engine import Target
from tests.storage.test_damage import segments_of, written
from tests.table.packing import batch
from tests.table.scripts import Author, Stage, perform
from tests.wire.frames import EPOCH, request

NODE = Hello("peer", "10.0.0.2:7101", b"N" * 16, b"C" * 16, {"blank": False})
CALLER = Hello("peer", "10.0.0.1:7101", b"P" * 16, b"C" * 16, {"blank": True})
SECRET = "a long random secret"
SNAPSHOT = snapshots.snapshot_name(7)


def _crc(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))


# Frames of clients: into the queue, and from there into a table.


def _frames() -> list[bytes]:
    rng = random.Random(1)
    author = Author(rng)
    frames = [request(number + 1, author.operation(), EPOCH) for number in range(60)]
    return [*frames, b"".join(frames), b"".join(frames[:7])]


def _read_frames(data: bytes) -> object:
    intake = Intake(1, 100, 4096, 1000)
    intake.epoch = EPOCH
    reader = FrameReader(intake, 1, FRAME_MAX_BYTES)
    half = len(data) // 2
    diverted: list[bytes] = []
    try:
        for piece in (data[:half], data[half:]):
            diverted += reader.feed(piece)
    except WireError as error:
        return str(error)[:20]
    assert reader.held <= 2 * len(data) + 64
    codes, table = set(), LeaseTable()
    table.apply(batch([[8]], 0, EPOCH))
    while (sealed := intake.seal(1_000)) is not None:
        replies, _ = table.apply(sealed.batch)
        # What enters a batch is readable: no operation may make the table refuse the ones after it.
        routed, _ = sealed.route(replies)
        codes |= {answer[0] for _, sent in routed for answer in _answers(sent)}
        assert sum(len(_answers(sent)) for _, sent in routed) == sealed.count
    return tuple(sorted(codes)), min(len(diverted), 3)


def _answers(frames: bytes) -> list[Any]:
    found = []
    while frames:
        size = int.from_bytes(frames[:4], "big")
        found.append(unpack(frames[4 : 4 + size])[1])
        frames = frames[4 + size :]
    return found


# Batches and states of the lease table.


def _batches() -> list[bytes]:
    author = Author(random.Random(4), ops_max=8)
    return [author.next_batch() for _ in range(60)]


def _read_batch(data: bytes) -> object:
    one, two = LeaseTable(seed=1), LeaseTable(seed=2)
    codes = set()
    for given in (batch([[8]], 0, 1), data, data):
        outcome = one.apply(given)
        assert outcome == two.apply(given), "two tables differ"
        codes |= {answer[0] for answer in unpack_stream(outcome[0])}
    state = one.snapshot()
    assert state == two.snapshot(), "two tables differ"
    if one.level > LEVEL:
        return "a level of the future"
    three = LeaseTable()
    three.restore(state)
    assert three.snapshot() == state, "a state restored is another"
    return tuple(sorted(codes))


def _states() -> list[bytes]:
    found = []
    for seed in range(6):
        table = LeaseTable()
        perform(Stage([table]), Author(random.Random(seed), names=6, ops_max=8), 25)
        found.append(table.snapshot())
    return found


def _read_state(data: bytes) -> object:
    table = LeaseTable()
    before = table.snapshot()
    try:
        table.restore(data)
    except ValueError as error:
        assert table.snapshot() == before, "a refused state left something"
        # How far it was read says most.
        return str(error)[:110]
    twin = LeaseTable()
    twin.restore(table.snapshot())
    assert twin.snapshot() == table.snapshot()
    return True


# Messages.


def _peer_messages() -> list[bytes]:
    made = [
        _peer.append_frame(3, 1.5, 7, 2, 6, [(3, b"one"), (3, b"x" * 300)])[4:],
        _peer.ack_frame(3, 1.5, 9, True, False)[4:],
    ]
    others: list[Any] = [
        [3, 3, 1.5, 6, 7, 2, 5000, 77, 0, b"piece"], [4, 3, 1.5, 7, 77, 5, True], [5, 4, 7, 2, False], [6, 4], [7, 4],
        [8, 4, 1, 7, 2], [9, 4, 1], [10, 4, 9],
    ]  # fmt: skip
    return [*made, *map(pack, others)]


def _read_peer(data: bytes) -> object:
    try:
        message = _peer.decode(data)
    except ValueError as error:
        return str(error)[:40]
    return tuple(type(field).__name__ for field in message)


def _values() -> list[bytes]:
    return [*_peer_messages(), pack({"a": [1, -5, 2.5, None, True], "b": {"c": b"bin", "d": "text"}}), pack("x" * 300)]


def _read_value(data: bytes) -> object:
    try:
        value = unpack(data)
    except ValueError as error:
        return str(error)[:20]
    assert repr(unpack(pack(value))) == repr(value)
    return type(value).__name__


def _requests() -> list[bytes]:
    author = Author(random.Random(3))
    own: list[Any] = [[64], [65, b"job", True], [66, b"", b"", 0, 10], [67], [69, b"i" * 16]]
    operations = [author.operation() for _ in range(40)]
    return [pack(operation) for operation in [*own, *operations, *([68, 500, operation] for operation in operations)]]


def _read_request(data: bytes) -> object:
    try:
        operation = unpack(data)
    except ValueError:
        return None
    text = fault(operation)
    return text if text is None else text[:30]


def _script(secret: str | None) -> list[bytes]:
    """What both sides send in a handshake that succeeds, each with the number of what came before it."""
    one, two = _dialer(secret), _acceptor(secret)
    said = [one.start()]
    while not one.done:
        said.append(two.receive(said[-1]) or b"")
        if (reply := one.receive(said[-1])) is not None:
            said.append(reply)
    return said


def _dialer(secret: str | None) -> DialerHandshake:
    return DialerHandshake(CALLER, Secrets.of(secret).of_role("peer"), b"d" * NONCE_BYTES)


def _acceptor(secret: str | None) -> AcceptorHandshake:
    welcome = Welcome(NODE.node_id, NODE.cluster_id, 7, "10.0.0.9:1")
    return AcceptorHandshake(NODE, Secrets.of(secret), b"a" * NONCE_BYTES, lambda hello: None, lambda hello: welcome)


_SCRIPTS = {secret: _script(secret) for secret in (SECRET, None)}


def _shakes() -> list[bytes]:
    return [payload for said in _SCRIPTS.values() for payload in said] + [pack(["error", "secret", "no"])]


def _read_shake(data: bytes) -> object:
    """Given to either side, at every step, with a secret and without."""
    answers = []
    for secret, said in _SCRIPTS.items():
        for step in range(len(said)):
            one, two = _dialer(secret), _acceptor(secret)
            # said[0] and said[2] are for the acceptor, said[1] and said[3] for the dialer.
            side: DialerHandshake | AcceptorHandshake = one if step % 2 else two
            for payload in said[step % 2 : step : 2]:
                side.receive(payload)
            try:
                side.receive(data)
                answers.append(side.done)
                # Who does not know the secret is not let in.
                assert side is one or secret is None or not two.done or data in said
            except Refused as refused:
                answers.append(refused.code == "protocol")
    return tuple(answers)


# Files.


def _journals() -> list[bytes]:
    return [segment.data for groups in (1, 3, 6) for segment in segments_of(written(groups, close=groups == 3)[0])]


def _mend_journal(data: bytes) -> bytes:
    """Right checksums for the header, and for every record as far as their lengths lead."""
    if len(data) < r.HEADER_BYTES:
        return data
    made = bytearray(data)
    made[32:40] = len(data).to_bytes(8, "little") if made[0] & 1 else made[32:40]
    made[60:64] = _crc(bytes(made[:60]))
    try:
        header = r.Header.decode(bytes(made))
    except ValueError:
        return bytes(made)
    offset = r.HEADER_BYTES
    while offset + r.RECORD_BYTES <= len(made) and made[offset : offset + 4] == header.mark:
        size = int.from_bytes(made[offset + 8 : offset + 12], "little")
        body = bytes(made[offset + 8 : offset + r.RECORD_BYTES + size])
        crc = zlib.crc32(body, (header.seed + r.position_of(header, offset)) & 0xFFFF_FFFF)
        made[offset + 4 : offset + 8] = crc.to_bytes(4, "little")
        offset += r.RECORD_BYTES + size
    return bytes(made)


def _read_journal(data: bytes) -> object:
    try:
        log = replay([Segment("journal-1", data)])
    except StorageDamaged as error:
        return str(error).partition(":")[2][:30]
    assert log.end <= log.headers[0].base + len(data)
    return log.cut is not None, min(len(log.entries), 4)


def _metas() -> list[bytes]:
    formed = {"10.0.0.1:7101": b"P" * 16, "10.0.0.2:7101": b"N" * 16}
    states = [meta.State(), meta.State(3, "10.0.0.2:7101", b"P" * 16, b"C" * 16, formed, True, 2)]
    return [meta.encode(state) for state in states]


def _mend_meta(data: bytes) -> bytes:
    if len(data) < 24:
        return data
    body = data[24:]
    front = data[:12] + struct.pack("<I", len(body)) + _crc(body)
    return front + _crc(front) + body


def _read_meta(data: bytes) -> object:
    try:
        state = meta.decode(data)
    except StorageDamaged as error:
        return str(error)[:60]
    assert meta.decode(meta.encode(state)) == state
    return len(state.formed)


def _snapshots() -> list[bytes]:
    made = []
    for size in (0, 5, 300):
        header, data = snapshots.encode_header(7, 2, size), bytes(range(256)) * 2
        seed = zlib.crc32(header[:-4])
        made.append(header + (data[:size] + struct.pack("<I", zlib.crc32(data[:size], seed)) if size else b""))
    return made


def _mend_snapshot(data: bytes) -> bytes:
    if len(data) < 44:
        return data
    front = data[:-4][:40]
    seed, body = zlib.crc32(front), data[44:-4]
    return front + _crc(front) + (body + struct.pack("<I", zlib.crc32(body, seed)) if len(data) > 48 else data[44:])


def _read_snapshot(data: bytes) -> object:
    try:
        index, _, state = snapshots.decode(SNAPSHOT, data)
    except StorageDamaged as error:
        return str(error)[:60]
    assert index == 7
    assert len(state) <= len(data)
    return True


def _read_secrets(data: bytes) -> object:
    try:
        return repr(parse_secrets(data, "file"))
    except UsageError as error:
        return str(error)[:30]


def _secret_files() -> list[bytes]:
    return [b"peer: " + b"p" * 16 + b"\nclient:" + b"c" * 32 + b"\n# note\nadmin: " + b"a" * 20, b"correct horse battery staple\n"]


def _all(*targets: Target) -> dict[str, Target]:
    return {target.name: target for target in targets}


TARGETS = _all(
    Target("frames", _frames, _read_frames),
    Target("table", _batches, _read_batch),
    Target("state", _states, _read_state),
    Target("peer", _peer_messages, _read_peer),
    Target("codec", _values, _read_value, watched=("cluster.codec",)),
    Target("request", _requests, _read_request, watched=("cluster.server.shapes",)),
    Target("handshake", _shakes, _read_shake, watched=("cluster.net.handshake",)),
    Target("journal", _journals, _read_journal, _mend_journal, ("cluster.storage.replay", "cluster.storage.record")),
    Target("meta", _metas, _read_meta, _mend_meta, ("cluster.storage.meta",)),
    Target("snapshot", _snapshots, _read_snapshot, _mend_snapshot, ("cluster.storage.snapshots",)),
    Target("secrets", _secret_files, _read_secrets, watched=("cluster.secrets",)),
)
