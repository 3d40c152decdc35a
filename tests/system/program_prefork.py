"""A web application whose workers share one node and do one job in turns: what ``gunicorn`` runs in ``test_prefork.py``.

Knows: ``join_or_connect``, a diary that every process appends to. Must not know: who is killed, and when.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import tenure

TRY_EVERY_S = 0.25
WORK_S = 0.2
OPTIONS = tenure.ElectionOptions(wait_time=0, lease_time=1.0, min_lease_time=0.8)


def note(*words: object) -> None:
    """One line of the diary, in one write: when, who, what."""
    line = " ".join(map(str, (f"{time.monotonic():.6f}", os.getpid(), *words)))
    diary = os.open(os.environ["PREFORK_DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(diary, f"{line}\n".encode())
    os.close(diary)


def work() -> None:
    token = tenure.assert_leader().token
    note("begins", token)
    time.sleep(WORK_S)
    note("ends", token)


def take_part(coordinator: tenure.Coordinator) -> None:
    elector = tenure.LeaderElector(coordinator, OPTIONS)
    while True:
        try:
            elector.run_if_leader("job", work)
            note("tried")
        except tenure.CoordinationError as error:
            note("failed", type(error).__name__, error)
        time.sleep(TRY_EVERY_S)


def start() -> None:
    """In each worker, after the fork."""
    directory = os.environ["PREFORK_DIRECTORY"]
    coordinator = tenure.join_or_connect(
        f"{directory}/node.sock", os.environ["PREFORK_LISTEN"], single=True, data_dir=f"{directory}/data"
    )
    threading.Thread(target=take_part, args=(coordinator,), daemon=True).start()


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
