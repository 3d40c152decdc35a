"""Processes that end with the one that started them, however that ended.

Knows: standard input as a leash: it is a pipe that closes when the parent is gone. Must not know: what runs on it.

``python -m cluster.cli.leash ARGUMENTS`` runs the command line on such a leash.
"""

from __future__ import annotations

import os
import sys
import threading

EXIT_PARENT_GONE = 99


def hold() -> None:
    """From now on this process ends, at once, when its standard input does."""
    threading.Thread(target=_wait_for_end, name="tenure-leash", daemon=True).start()


def _wait_for_end() -> None:
    while os.read(0, 64):
        continue
    os._exit(EXIT_PARENT_GONE)


if __name__ == "__main__":
    from cluster.__main__ import main

    hold()
    sys.exit(main(prog="tenure"))
