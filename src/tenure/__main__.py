"""``python -m tenure``: the same command line as ``python -m cluster``, since ``cluster`` is a common name.

Knows: the door of the command line. Must not know: any command.
"""

from __future__ import annotations

import sys

from cluster.__main__ import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m tenure"))
