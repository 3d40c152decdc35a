"""A command that does not hear TERM and writes the machine's monotonic time to a file again and again: a sign of life.

Knows: one file. Must not know: who runs it.
"""

from __future__ import annotations

import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "a") as file:
    while True:
        file.write(f"{time.monotonic()!r}\n")
        file.flush()
        # It is to run until it is killed, and leave the processor to others.
        time.sleep(0.005)
