"""A process that takes a seat by ``join_or_connect`` and says so, until its standard input ends. With ``fork`` its child takes a seat too.

Knows: ``join_or_connect``, fork. Must not know: who is killed, and when.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

import tenure

CHILD_LIVES_S = 60


def take_seat(socket_path: str, listen: str, data_dir: str, peers: str = "") -> tenure.Coordinator:
    return tenure.join_or_connect(socket_path, listen, peers, single=not peers, data_dir=data_dir)


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(socket_path: str, listen: str, data_dir: str, mode: str, peers: str = "") -> None:
    coordinator = take_seat(socket_path, listen, data_dir, peers)
    if mode == "fork":
        # From 3.12 on Python warns of what this test is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        if os.fork() == 0:
            try:
                coordinator.acquire("inherited")
            except tenure.UsageError as error:
                say("refused", "fork" in str(error))
            take_seat(socket_path, listen, data_dir)
            say("child", os.getpid())
            time.sleep(CHILD_LIVES_S)
            os._exit(0)
    say("seated", os.getpid())
    sys.stdin.read()
    coordinator.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
