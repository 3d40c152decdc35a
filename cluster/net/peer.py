"""The connection of one peer: frames out of bytes, and nothing else on the way.

Knows: length prefixes, and that an empty frame is a sign of life. Must not know: what frames mean, which connection is the right one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from cluster.limits import PEER_FRAME_MAX_BYTES, PEER_OUTPUT_BUFFER_MAX_BYTES
from cluster.net.stream import Stream
from cluster.ports import Env, Hello

PING: Final = b"\0\0\0\0"
_PREFIX: Final = 4
_unpack_length = struct.Struct(">I").unpack_from


class FrameSink:
    """To whom frames go. An attribute, read anew for each chunk: the owner may set it late."""

    on_frame: Callable[[str, bytes], None]


class PeerStream(Stream):
    """An authenticated connection of a peer.

    Attributes:
        peer: its node id.
        hello: what it said of itself.
        since: ``env.clock()`` when the handshake was over.
    """

    def __init__(
        self, env: Env, hello: Hello, sink: FrameSink, on_ended: Callable[[PeerStream, str], None]
    ) -> None:
        super().__init__(env, PEER_OUTPUT_BUFFER_MAX_BYTES)
        self.peer = hello.node_id
        self.hello = hello
        self.since = env.clock()
        self._clock = env.clock
        self._sink = sink
        self._on_ended = on_ended
        self._partial = bytearray()
        self._need = _PREFIX

    def write(self, frames: bytes) -> bool:
        """Queue whole frames; False when it is closed, or was closed by this (the buffer is full)."""
        if self.reason is not None:
            return False
        self.transport.write(frames)
        return self.reason is None

    def data_received(self, data: bytes) -> None:
        if self.reason is not None:
            return
        self.heard_at = self._clock()
        partial = self._partial
        if partial:
            partial += data
            if len(partial) < self._need:
                return
            data = bytes(partial)
            partial.clear()
        peer, deliver = self.peer, self._sink.on_frame
        start, end = 0, len(data)
        while end - start >= _PREFIX:
            size: int = _unpack_length(data, start)[0]
            if size > PEER_FRAME_MAX_BYTES:
                self.close(f"a frame of {size} bytes; the limit is {PEER_FRAME_MAX_BYTES}", abort=True)
                return
            stop = start + _PREFIX + size
            if stop > end:
                self._need = stop - start
                partial += data[start:]
                return
            if size:
                deliver(peer, data[start + _PREFIX : stop])
                # What was delivered may have closed this connection; the rest of it is not delivered then.
                if self.reason is not None:
                    return
            start = stop
        self._need = _PREFIX
        if start < end:
            partial += data[start:]

    def ended(self, reason: str) -> None:
        self._partial.clear()
        self._on_ended(self, reason)


def boot_of(hello: Hello) -> Any:
    """What tells one process from another of the same node id."""
    return hello.info.get("boot")
