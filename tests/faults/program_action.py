"""An elector's action that waits for a line on its standard input, and whose very next statement is ``check()``.

Knows: the public interface. Must not know: what happens to it while it waits.

Arguments: ENDPOINTS NAME LEASE_S FORM, a form of ``FORMS``. Says one JSON object before it waits, one of its check, one of the outcome.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

import tenure


def _say(**found: Any) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def work() -> None:
    _say(token=cast(tenure.Lease, tenure.current_lease()).token)
    try:
        sys.stdin.readline()
        cast(tenure.Lease, tenure.current_lease()).check()
    except tenure.LeaseLostError:
        _say(check="raised")
        raise
    _say(check="passed")


async def async_work() -> None:
    # It blocks its loop, as what is stopped does: nothing of this process has run when it goes on.
    work()


def _options(lease_s: float) -> tenure.ElectionOptions:
    return tenure.ElectionOptions(lease_time=lease_s, auto_extend=True)


def blocking(endpoints: str, name: str, lease_s: float) -> str:
    with tenure.connect(endpoints) as coordinator:
        return type(tenure.LeaderElector(coordinator, _options(lease_s)).run_if_leader_result(name, work)).__name__


def on_a_loop(endpoints: str, name: str, lease_s: float) -> str:
    async def run() -> str:
        async with await tenure.aio.connect(endpoints) as coordinator:
            elector = tenure.AsyncLeaderElector(coordinator, _options(lease_s))
            return type(await elector.run_if_leader_result(name, async_work)).__name__

    return asyncio.run(run())


FORMS = {"blocking": blocking, "asyncio": on_a_loop}


def main() -> None:
    endpoints, name, lease_s, form = sys.argv[1:]
    _say(outcome=FORMS[form](endpoints, name, float(lease_s)))


if __name__ == "__main__":
    main()
