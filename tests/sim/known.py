"""At which seed each mutant was first found, and which are found by something else.

Knows: what `python -m tests.sim.hunt` said. Must not know: anything of how.
"""

from __future__ import annotations

FOUND_AT: dict[str, int] = {
    "clock base taken early": 0,
    "clock base renewed at every batch": 0,
    "wall-clock expiry": 3,
    "deadline counted from the receipt": 0,
    "deadline counted from the last frame sent": 0,
    "no epoch check in the table": 5,
    "session joined without renewal": 0,
    "extension that shortens": 0,
    "expiry judged by the sweep": 3,
    "stale token accepted": 0,
    "tokens used again after a restart": 3,
    "requests of another epoch accepted": 1,
    "replaced connection heard": 0,
    "waiter proposed unheard": 7,
    "answers from memory without a fresh majority": 1,
    "serves before its epoch is applied": 1,
    "wiped node counted before it has caught up": 3,
    "wiped node votes at once": 3,
    "fsync skipped": 1,
    "fsync after the answer": 1,
    "term and vote not synced": 1,
    "apply twice": 0,
    "last command of the snapshot applied again": 2,
    "wiped node's earlier acknowledgements counted": 19,
    "vote right after the start": 34,
    "without stickiness": 34,
    "without trim and forward": 0,
    "without snapcommit": 2,
    "without prevote": 2,
    "without checkquorum": 1,
    "consistent read from memory": 8,
    "leader counts itself before its sync": 8,
    "without startup": 3,
}

ELSEWHERE: dict[str, str] = {
    "unsealed requests of a gone connection kept": "the queue keeps the order of arrival, so an older copy is sealed before "
    "anything newer of the same client, and asks for the same by the same id; `tests/wire/` shows that they are dropped",
    "without trim": "appends come in order, and an acknowledgement never moves the leader back (Forward): "
    "`tests/raft/test_schedule_log.py`, s02, s10",
    "without snapseq": "a snapshot that was put together wrongly has another checksum and is fetched again (FailStop): "
    "`tests/raft/test_schedule_snapshot.py`, s05",
    "without voteid": "one connection per peer, in order, brings each answer once: `tests/raft/test_schedule_votes.py`, s15",
    "without oneconn": "the net keeps one connection per peer already (`tests/net/test_one_connection.py`), and Trim stands behind it: "
    "`tests/raft/test_schedule_log.py`, s10",
    "without ackterm": "not found in 52 seeds: needs an answer that outlives two elections on a connection that lives: "
    "`tests/raft/test_schedule_log.py`, s03",
    "without snapkeep": "not found in 28 seeds: needs the same snapshot twice, the second time after newer entries: "
    "`tests/raft/test_schedule_snapshot.py`, s04",
    "without snapseq and failstop": "not found in the first seeds; search it further: "
    "`tests/raft/test_schedule_snapshot.py`, s05",
    "without backtrack": "not found in 31 seeds; search it further: `tests/raft/test_schedule_log.py`, s11",
    "without stepdown": "not found in 28 seeds; search it further: check-quorum and pre-vote end an old reign too, only later: "
    "`tests/raft/test_schedule_votes.py`",
}
