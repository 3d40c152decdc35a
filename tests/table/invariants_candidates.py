"""A witness of rosters: what one revision means, whose results are counted, and that nothing comes back.

Knows: the formats, answers. Must not know: the model, how answers are found.
"""

from __future__ import annotations

from typing import Any

OK, RELEASE, ELECT = 0, 5, 19
NODE, NUMBER, DEADLINE, REGISTERED, STARTED, COMPLETED, SUCCESSES, FAILURES, INFO = range(9)


def check_rosters(state: Any) -> None:
    """What holds of every state by itself."""
    names, revisions = [row[0] for row in state.rosters], [row[1] for row in state.rosters]
    assert revisions == sorted(set(revisions)), "I6: rosters out of order"
    assert len(set(names)) == len(names), "a name has two rosters"
    for _, revision, last_token, open_since, candidates in state.rosters:
        numbers = [candidate[NUMBER] for candidate in candidates]
        assert candidates, "a roster without candidates"
        assert numbers == sorted(set(numbers)), "I6: candidates out of order"
        assert numbers[-1] <= revision < state.next_token, "I2: a revision that was not given out"
        assert last_token <= revision, "F4: a grant was no change"
        assert open_since is None or open_since <= state.now, "I3: opened later than now"
        assert len({candidate[NODE] for candidate in candidates}) == len(candidates), "one node id stands twice"


class CandidateWitness:
    """Feed it every batch with the states around it; it raises AssertionError."""

    def saw(self, before: Any, after: Any, happened: list[tuple[list[Any], list[Any]]]) -> None:
        check_rosters(after)
        earlier = {row[0]: row for row in before.rosters}
        released = sum(operation[0] == RELEASE and answer[0] == OK for operation, answer in happened)
        counted = 0
        for name, revision, _, _, candidates in after.rosters:
            if name not in earlier:
                assert revision >= before.next_token, "a new roster has an old revision"
                continue
            known = {candidate[NUMBER]: candidate for candidate in earlier[name][4]}
            assert revision >= earlier[name][1], "a revision went back"
            for candidate in candidates:
                old = known.get(candidate[NUMBER])
                if old is None:
                    assert candidate[NUMBER] >= before.next_token, "F5: a candidate came back"
                    counted += candidate[SUCCESSES] + candidate[FAILURES]
                    continue
                assert candidate[DEADLINE] >= old[DEADLINE], "a candidate's time was shortened"
                assert candidate[REGISTERED] == old[REGISTERED], "F5: it registered anew and kept its number"
                assert candidate[SUCCESSES] >= old[SUCCESSES], "F5: counters were wiped"
                assert candidate[FAILURES] >= old[FAILURES], "F5: counters were wiped"
                assert candidate[DEADLINE] == old[DEADLINE] or old[DEADLINE] > before.now, "F5: revived"
                counted += candidate[SUCCESSES] + candidate[FAILURES] - old[SUCCESSES] - old[FAILURES]
                if revision == earlier[name][1]:
                    same = [field for field in range(9) if field != DEADLINE]
                    assert [candidate[i] for i in same] == [old[i] for i in same], "F4: one revision, two views"
            if revision == earlier[name][1]:
                assert {c[NUMBER] for c in candidates} <= set(known), "F4: one revision, two views"
        assert counted <= released, "F5: a result was counted that nobody gave, or twice"
        if len(happened) == 1:
            self._check_claim(before, after, *happened[0])

    def _check_claim(self, before: Any, after: Any, operation: list[Any], answer: list[Any]) -> None:
        """Of a claim that had a batch for itself, so that the state before it is the one that it was judged by."""
        if operation[0] != ELECT or answer[0] != OK or answer[1] < before.next_token:
            return
        name, node_id, claim = operation[2], operation[7], operation[9:]
        found = [row for row in before.rosters if row[0] == name]
        assert found, "F4: granted to who does not stand"
        _, revision, _, open_since, candidates = found[0]
        living = [candidate for candidate in candidates if candidate[DEADLINE] > after.now]
        assert node_id in [candidate[NODE] for candidate in living], "F4: granted to who does not stand"
        assert claim[:2] == [revision, len(living)], "F4: granted against another view"
        opened = after.now if open_since is None else open_since
        assert after.now >= opened + claim[2] * claim[3], "F4: granted before its turn"
