"""At which seed each mutant was first found and by what it is recognised, and which are found by something else.

Knows: what `python -m tests.sim.hunt` said. Must not know: anything of how.
"""

from __future__ import annotations

_COUNTS = r"Violation: .* (counts on token|believes for) .* \(I8\)"
_TAKEN = r"Violation: .* (counts on token|believes for|too early) .*\(I8\)"
_ENDED = r"Violation: .* is granted with token \d+ to .*, which had ended this acquisition"
_MEMORY = r"Violation: .* leads in term \d+ while .* may still answer from memory"
_ANOTHER = r"Violation: .* applies another command at index \d+ than was applied there before"
_DIVERGED = (
    f"{_ANOTHER}|Violation: .*( were both elected in term| contradicts the committed entry| ms of cluster time passed)"
)
_DISAGREE = r"Violation: the nodes do not agree 30 s after the last fault"
_READ = r"Violation: the history is not one of a lease service: .*: the read from .* saw"
_REFUSED_WRITE = r"Violation: the history .* whose write was refused: conflict \(I10\)"
_TOKEN_OVER = r"Violation: .* I10: written with a token that is not live"

FOUND_AT: dict[str, tuple[int, str]] = {
    "clock base taken early": (0, r"Violation: .* (ms of cluster time passed|faster than real time)"),
    "clock base renewed at every batch": (0, r"Violation: .* time stands still under load"),
    "epoch entry taken for a base": (0, r"Violation: .* a failover takes time away"),
    "wall-clock expiry": (13, r"Violation: .* (faster than real time|time stands still under load)"),
    "deadline counted from the receipt": (6, _COUNTS),
    "deadline counted from the last frame sent": (1, _COUNTS),
    "deadline without drift and margin": (2, _COUNTS),
    "no epoch check in the table": (12, r"Violation: .* a batch of epoch \d+ changed something in epoch \d+ \(I3\)"),
    "session joined without renewal": (1, r"Violation: .* was told session_ended of token .* too early \(I8\)"),
    "extension that shortens": (0, r"Violation: .* I4: a lease was shortened"),
    "expiry judged by the sweep": (0, _TOKEN_OVER),
    "stale token accepted": (0, _TAKEN),
    "tokens used again after a restart": (
        1,
        r"Violation: .*(I2: .* was not given out|was told \w+ of token .* too early|was refused since token \d+ held the name)",
    ),
    "requests of another epoch accepted": (3, _ENDED),
    "replaced connection heard": (86, _ENDED),
    "waiter proposed unheard": (88, r"Violation: .* proposes a waiter of .*, which it has not heard for"),
    "answers from memory without a fresh majority": (0, _MEMORY),
    "answers from memory in a handover": (1, _MEMORY),
    "liveness judged by the last applied time": (
        7,
        r"Violation: .* is not granted to anybody .*: nothing is granted yet",
    ),
    "serves before its epoch is applied": (1, r"Violation: .* ms of cluster time passed"),
    "restore without the wait": (1, r"Violation: .* I8: a restored group begins without a wait"),
    "wiped node counted before it has caught up": (2, f"{_DISAGREE}|Violation: .* was removed from its raft group"),
    "wiped node votes at once": (1, f"{_DIVERGED}|{_DISAGREE}"),
    "fsync skipped": (5, r"StorageDamaged: data/journal-"),
    "fsync after the answer": (0, _DIVERGED),
    "term and vote not synced": (5, r"StorageDamaged: data/meta is damaged"),
    "apply twice": (0, r"Violation: .* applies index \d+ again"),
    "last command of the snapshot applied again": (
        52,
        r"Violation: .*( has another state at index \d+ than the log gives \(I6\)|, which no log has \(I9\))",
    ),
    "wiped node's earlier acknowledgements counted": (5, _DISAGREE),
    "vote right after the start": (25, _MEMORY),
    "without stickiness": (0, f"{_MEMORY}|Violation: .* \\(E3\\)"),
    "without trim": (17, r"Violation: .* was removed from its raft group"),
    "without forward": (8, _DISAGREE),
    "without trim and forward": (12, _DISAGREE),
    "without snapcommit": (12, r"Violation: .* applies index \d+, which nobody had applied"),
    "without prevote": (9, r"Violation: .* was cut off .* \(E3\)"),
    "without checkquorum": (1, r"Violation: .* still leads in term \d+ .* \(E2\)"),
    "without keepsmembers": (11, r"Violation: .* was removed from its raft group"),
    "consistent read from memory": (25, _READ),
    "leader counts itself before its sync": (43, f"{_DIVERGED}|{_READ}"),
    "without startup": (7, f"{_DIVERGED}|{_DISAGREE}"),
    "without stepdown": (0, r"Violation: .* stood for election and nobody heard of it"),
    "queue kept after the reign": (12, f"{_ENDED}|Violation: .* requests of an earlier epoch are queued"),
    "retry answered without remaining": (2, _COUNTS),
    "record written without the lease it is bound to": (0, r"Violation: .* I10: written under another name"),
    "record written under a token that is over": (0, _TOKEN_OVER),
    "retried write of a record applied again": (1, f"Violation: .* I10: a write was applied again|{_REFUSED_WRITE}"),
    "retried write of a record under another id": (
        6,
        r"Violation: the history .* whose write was refused: conflict \(I10\)",
    ),
    "record read without a fresh majority": (
        54,
        r"Violation: the history .* asked to get at .* had been answered version",
    ),
    "claim against another view granted": (65, r"Violation: .* F4: granted against another view"),
    "claim before its turn granted": (1, r"Violation: .* F4: granted before its turn"),
    "counters wiped by registering again": (1, r"Violation: .* F5: counters were wiped"),
    "action not cancelled when its lease is lost": (0, r"Violation: .* the action of .* was not told \(rule 7\)"),
    "released before the action has ended": (0, r"Violation: .* it runs on, and its caller was told"),
    "what was given up is not abandoned": (0, r"Violation: '\w+' is not granted to anybody 10 s after all work ended"),
}
"""The first seed, and the mutant's sign: type and text of what is raised there, from their begin on. Whatever else is raised shows that
the mutant is broken itself."""

_RAFT = "tests/raft/test_simulation.py::test_a_broken_system_is_found_out"

ELSEWHERE: dict[str, tuple[str, str]] = {
    "unsealed requests of a gone connection kept": (
        "the queue keeps the order of arrival: an older copy is sealed before anything newer of the same client, and asks for the same by "
        "the same id",
        "tests/wire/test_queue.py::test_drop_forgets_one_connections_operations_only",
    ),
    "without snapseq": (
        "a snapshot that was put together wrongly has another checksum and is fetched again (FailStop); where pieces are small and come "
        "twice it is seen that they were mixed; with both left out the leader counts on a node that has another state",
        f"{_RAFT}[withoutSnapSeq-pieces]",
    ),
    "without snapseq and failstop": (
        "needs half a snapshot of one leader and the rest of another's of the same node; where pieces are small and come twice a node "
        "has another state",
        f"{_RAFT}[withoutSnapSeqFailStop-pieces]",
    ),
    "without failstop": (
        "needs a snapshot that its maker could write and its receiver cannot read, or pieces that were mixed (SnapSeq); where machines "
        "fail once a node has another state",
        f"{_RAFT}[withoutFailStop-failing]",
    ),
    "without snapkeep": (
        "what is lost is sent again by the same leader; with a look into each log before and after a snapshot it is seen that committed "
        "entries vanish, and with OneConn left out too they are lost",
        f"{_RAFT}[withoutSnapKeep-far]",
    ),
    "without oneconn": (
        "the net keeps one connection per peer already (`tests/net/test_one_connection.py`), and Trim stands behind it; where messages "
        "come twice a leader counts what an older connection brought",
        f"{_RAFT}[withoutOneConn-echo5]",
    ),
    "without voteid": (
        "one connection per peer, in order, brings each vote once; where messages come twice two nodes lead in one term",
        f"{_RAFT}[withoutVoteId-echo5]",
    ),
    "without ackterm": (
        "needs an answer that outlives two elections on a connection that lives, and more entries under way than the server's one; where a "
        "leader returns with such answers under way a follower is never caught up",
        f"{_RAFT}[withoutAckTerm-returns]",
    ),
    "without backtrack": (
        "needs a tail of several entries that conflict, and several appends under way; the server has one entry under way at a time. "
        "With far peers and many entries a follower is never caught up",
        f"{_RAFT}[withoutBacktrack-far]",
    ),
    "without poison": (
        "no command fails: the table's `apply` is total (I7); where machines fail once in the midst of a command a node has another state",
        f"{_RAFT}[withoutPoison-failing]",
    ),
    "without latetimers": (
        "whoever stands too early is not voted for (PreVote, Stickiness); where nodes are paused it is seen that they stand with their "
        "leader's messages unread",
        f"{_RAFT}[withoutLateTimers-base]",
    ),
    "without oneatatime": (
        "a change that is under way keeps the next one waiting by itself; with that left out too two lead where members of a small group "
        "come and go",
        "tests/raft/test_schedule_members.py::test_s08_two_membership_changes_at_once__I9",
    ),
    "without owntermfirst": (
        "needs two leaders that each begin with a change before they commit anything, and the first one's change on a minority; members "
        "are changed twice in a run here. Where members come and go all the time it is seen that a change is begun too early",
        f"{_RAFT}[withoutOwnTermFirst-stormmembers]",
    ),
    "without unlisted": (
        "needs a leader of two that removes the other and loses that entry; these groups have three members at least. In groups of two "
        "neither is elected again",
        f"{_RAFT}[withoutUnlisted-pairs]",
    ),
    "without asksanew": (
        "needs a member that lost the end of its log and is the same one all the same: no disk here damages a last group, and where the "
        "power is cut without fsync much else is lost",
        "tests/raft/test_schedule_shorter.py::test_without_asking_anew_the_group_stands_still_although_two_of_three_run",
    ),
}
"""What the simulation does not show, why, and the test that shows it by hand."""
