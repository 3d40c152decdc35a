"""At which seed each mutant was first found, and which are found by something else.

Knows: what `python -m tests.sim.hunt` said. Must not know: anything of how.
"""

from __future__ import annotations

FOUND_AT: dict[str, int] = {
    "clock base taken early": 0,
    "clock base renewed at every batch": 0,
    "wall-clock expiry": 13,
    "deadline counted from the receipt": 2,
    "deadline counted from the last frame sent": 1,
    "no epoch check in the table": 1,
    "session joined without renewal": 1,
    "extension that shortens": 0,
    "expiry judged by the sweep": 0,
    "stale token accepted": 0,
    "tokens used again after a restart": 1,
    "requests of another epoch accepted": 42,
    "replaced connection heard": 86,
    "waiter proposed unheard": 88,
    "answers from memory without a fresh majority": 0,
    "serves before its epoch is applied": 1,
    "restore without the wait": 1,
    "wiped node counted before it has caught up": 2,
    "wiped node votes at once": 1,
    "fsync skipped": 5,
    "fsync after the answer": 0,
    "term and vote not synced": 5,
    "apply twice": 0,
    "last command of the snapshot applied again": 13,
    "wiped node's earlier acknowledgements counted": 5,
    "vote right after the start": 25,
    "without stickiness": 1,
    "without trim": 17,
    "without forward": 6,
    "without trim and forward": 12,
    "without snapcommit": 12,
    "without prevote": 9,
    "without checkquorum": 1,
    "consistent read from memory": 2,
    "leader counts itself before its sync": 43,
    "without startup": 3,
    "without stepdown": 0,
    "queue kept after the reign": 12,
    "retry answered without remaining": 2,
    "record written without the lease it is bound to": 0,
    "record written under a token that is over": 0,
    "retried write of a record applied again": 1,
    "retried write of a record under another id": 9,
    "record read without a fresh majority": 54,
    "claim against another view granted": 156,
    "claim before its turn granted": 0,
    "counters wiped by registering again": 1,
    "action not cancelled when its lease is lost": 0,
    "released before the action has ended": 0,
}

RAFT = "tests/raft/test_simulation.py::test_a_broken_system_is_found_out"

ELSEWHERE: dict[str, tuple[str, str]] = {
    "unsealed requests of a gone connection kept": (
        "the queue keeps the order of arrival: an older copy is sealed before anything newer of the same client, and asks for the same by "
        "the same id",
        "tests/wire/test_queue.py::test_drop_forgets_one_connections_operations_only",
    ),
    "without snapseq": (
        "a snapshot that was put together wrongly has another checksum and is fetched again (FailStop); where pieces are small and come "
        "twice it is seen that they were mixed; with both left out the leader counts on a node that has another state",
        RAFT,
    ),
    "without snapseq and failstop": (
        "needs half a snapshot of one leader and the rest of another's of the same node; where pieces are small and come twice a node "
        "has another state",
        RAFT,
    ),
    "without failstop": (
        "needs a snapshot that its maker could write and its receiver cannot read, or pieces that were mixed (SnapSeq); where machines "
        "fail once a node has another state",
        RAFT,
    ),
    "without snapkeep": (
        "what is lost is sent again by the same leader; with a look into each log before and after a snapshot it is seen that committed "
        "entries vanish, and with OneConn left out too they are lost",
        RAFT,
    ),
    "without oneconn": (
        "the net keeps one connection per peer already (`tests/net/test_one_connection.py`), and Trim stands behind it; where messages "
        "come twice a leader counts what an older connection brought",
        RAFT,
    ),
    "without voteid": (
        "one connection per peer, in order, brings each vote once; where messages come twice two nodes lead in one term",
        RAFT,
    ),
    "without ackterm": (
        "needs an answer that outlives two elections on a connection that lives, and more entries under way than the server's one; where a "
        "leader returns with such answers under way a follower is never caught up",
        RAFT,
    ),
    "without backtrack": (
        "needs a tail of several entries that conflict, and several appends under way; the server has one entry under way at a time. "
        "With far peers and many entries a follower is never caught up",
        RAFT,
    ),
    "without poison": (
        "no command fails: the table's `apply` is total (I7); where machines fail once in the midst of a command a node has another state",
        RAFT,
    ),
    "without latetimers": (
        "whoever stands too early is not voted for (PreVote, Stickiness); where nodes are paused it is seen that they stand with their "
        "leader's messages unread",
        RAFT,
    ),
}
"""What the simulation does not show, why, and the test that shows it by hand."""
