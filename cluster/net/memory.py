"""A connection without a socket: for a node's own process.

Knows: the two ends and their queues. Must not know: frames; it delivers bytes as a socket would.
"""

from __future__ import annotations

from cluster.limits import OUTPUT_BUFFER_MAX_BYTES
from cluster.net.receiver import Receiver
from cluster.ports import Connection, Env, Hello


class _End(Receiver):
    def __init__(self, env: Env, hello: Hello) -> None:
        super().__init__(env, hello)
        self._clock = env.clock
        self.heard_at = env.clock()
        self.reason: str | None = None
        self.other = self
        self._inbox: list[bytes] = []
        self._inbox_bytes = 0

    def write(self, data: bytes) -> None:
        if self.reason is not None or not data:
            return
        other = self.other
        if not other._inbox:
            self._call_soon(other._empty_inbox)
        other._inbox.append(data)
        other._inbox_bytes += len(data)
        if other._inbox_bytes > OUTPUT_BUFFER_MAX_BYTES:
            other._inbox.clear()
            self.close(f"more than {OUTPUT_BUFFER_MAX_BYTES} bytes wait to be delivered")

    def unsent(self) -> int:
        return self.other._inbox_bytes

    def _empty_inbox(self) -> None:
        data = b"".join(self._inbox)
        self._inbox.clear()
        self._inbox_bytes = 0
        if data and self.reason is None:
            self.heard_at = self._clock()
            self._deliver(data)

    def close(self, reason: str = "") -> None:
        if self.reason is not None:
            return
        self._end_with(reason or "closed by this side")
        # Scheduled behind the delivery of what was written before.
        self._call_soon(self.other._end_with, "closed by the other side")

    def _end_with(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
            self._call_soon(self._tell_end, reason)

    def _tell_end(self, reason: str) -> None:
        self.on_closed(reason)


def memory_pair(env: Env, hello: Hello) -> tuple[Connection, Connection]:
    """Make a connection within this loop: (the client's end, the server's end).

    Bytes are delivered by ``env.call_soon``, in order, what was written in one turn of the loop together. More than
    ``OUTPUT_BUFFER_MAX_BYTES`` under way close it.
    """
    client, server = _End(env, hello), _End(env, hello)
    client.other, server.other = server, client
    return client, server
