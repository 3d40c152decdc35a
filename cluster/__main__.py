"""``python -m cluster``, also installed as the script ``tenure``.

Knows: how it was called. Must not know: any command. Kept almost empty, since every ``--help`` pays for what is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    """Run one command line and return its exit status.

    Args:
        argv: the arguments; those of this process if None.
        prog: what help texts call the program; found out from this process if None.
    """
    from cluster.cli.main import run

    if prog is None:
        prog = "python -m cluster" if sys.argv[0].endswith("__main__.py") else "tenure"
    return run(sys.argv[1:] if argv is None else argv, prog=prog)


if __name__ == "__main__":
    sys.exit(main())
