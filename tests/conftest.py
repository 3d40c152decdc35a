"""What every test may rely on, however the run was started.

A shell that starts a job in the background has it ignore SIGINT, and Python then never raises KeyboardInterrupt, nor do the processes that
it starts. Tests of interrupts must not depend on that.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
