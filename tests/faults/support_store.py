"""A counter in a place of its own, which processes read and write over a socket; with or without a fencing gate in front of it.

Knows: sockets, ``FencingGate``. Must not know: leases, who calls.

One request a line, as JSON: ``["read", process, token]`` is answered with the value, ``["write", process, token, value]`` with whether it
was taken. With the gate a read needs its token too: a write stands on what was read, so a successor that has read must keep its
predecessor from writing, also when it has not written itself.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import tenure
from cluster.env import boot_clock
from tests.history.record import Record

ANSWERS_WITHIN_S = 30.0


class Store(socketserver.ThreadingTCPServer):
    """Serves ``counter`` on a loopback port of its own. ``events``: what it was asked to write, as ``tests.history.counter`` reads it."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, name: str, *, fenced: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Caller)
        self.name = name
        self.events: list[Record] = []
        self._value = 0
        self._lock = threading.Lock()
        self._gate = tenure.FencingGate() if fenced else None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def answer(self, what: str, process: str, token: int, *value: int) -> Any:
        """What a request is answered with; None: a read that is refused."""
        with self._lock, contextlib.ExitStack() as admitted:
            took = True
            if self._gate is not None:
                try:
                    admitted.enter_context(self._gate.guard(self.name, token))
                except tenure.FencedError:
                    took = False
            if what == "read":
                return self._value if took else None
            if took:
                self._value = value[0]
            event = {"at": boot_clock(), "kind": "write", "name": self.name, "process": process, "token": token}
            self.events.append({**event, "value": value[0], "took": took})
            return took

    @contextlib.contextmanager
    def running(self) -> Iterator[Store]:
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), name=f"store-{self.name}", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Caller(socketserver.StreamRequestHandler):
    server: Store

    def handle(self) -> None:
        # A caller may be killed at any moment.
        with contextlib.suppress(OSError):
            for line in self.rfile:
                self.wfile.write(json.dumps(self.server.answer(*json.loads(line))).encode() + b"\n")


class StoreClient:
    """One process's connection to a store."""

    def __init__(self, port: int, process: str) -> None:
        self._process = process
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWERS_WITHIN_S)
        self._file = self._socket.makefile("rw")

    def read(self, token: int) -> int | None:
        """The value; None: the gate refuses this token."""
        value: int | None = self._ask("read", self._process, token)
        return value

    def write(self, token: int, value: int) -> bool:
        return bool(self._ask("write", self._process, token, value))

    def _ask(self, *request: object) -> Any:
        self._file.write(json.dumps(request) + "\n")
        self._file.flush()
        return json.loads(self._file.readline())

    def close(self) -> None:
        self._file.close()
        self._socket.close()
