"""``python -m tests.history FILE``: check a history that was written down.

Knows: files. Must not know: the rules.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.history.checker import check
from tests.history.record import load


def main() -> int:
    wrong = []
    for name in sys.argv[1:]:
        events = load(Path(name))
        found = check(events)
        wrong += found
        sys.stdout.write("".join(f"{name}: {text}\n" for text in found))
        sys.stdout.write(f"{name}: {len(events)} events, {len(found)} objections\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
