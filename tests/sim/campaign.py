"""Many seeds, on several cores, for hours: each seed's outcome is appended to a file, from which a later run goes on.

Knows: seeds, outcomes, where they are kept, how a campaign is going. Must not know: what is checked.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.sim import crew
from tests.sim.coverage import not_covered, table
from tests.sim.run import run

PROGRESS_S = 30.0
SEED_LIMIT_S = 600.0
"""A seed takes about a second; on a busy machine a few. Who needs longer than this hangs."""


@dataclass
class Outcome:
    """One seed: what it counted, or how it failed."""

    seed: int
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    fingerprint: str = ""
    failure: str = ""
    commit: str = ""


def play(seed: int, seconds: float, nodes: int, history: str, work: str) -> Outcome:
    """One seed; what went wrong is text."""
    try:
        verdict = run(seed, seconds, nodes, history=Path(history.format(seed=seed)) if history else None, work=work)
    except Exception:
        return Outcome(seed, failure=traceback.format_exc())
    return Outcome(seed, verdict.seconds, dict(verdict.counts), verdict.fingerprint)


def played(job: dict[str, Any]) -> dict[str, Any]:
    """In a child: one seed."""
    logging.disable(logging.CRITICAL)
    return vars(play(**job))


def command(seed: int, seconds: float = 20.0, nodes: int = 0, work: str = "all") -> str:
    """What plays this seed again."""
    return f"python -m tests.sim --seed {seed} --seconds {seconds:g} --nodes {nodes} --work {work} --log"


class Campaign:
    """What is known of all seeds so far.

    Attributes:
        played: every seed.
        failed: those with a failure.
        fingerprint: of the log of the last one.
    """

    def __init__(self, results: Path | None = None) -> None:
        self.played: set[int] = set()
        self.failed: list[int] = []
        self.simulated = 0.0
        self.fingerprint = ""
        self.counts: Counter[str] = Counter()
        self.commits: Counter[str] = Counter()
        self._results = results
        self._commit = _commit()
        if results is not None and results.exists():
            for line in results.read_text().splitlines():
                self._take(Outcome(**json.loads(line)))

    def _take(self, outcome: Outcome) -> None:
        self.played.add(outcome.seed)
        self.simulated += outcome.seconds
        self.counts += Counter(outcome.counts)
        self.commits[outcome.commit] += 1
        self.fingerprint = outcome.fingerprint
        if outcome.failure:
            self.failed.append(outcome.seed)

    def add(self, outcome: Outcome) -> None:
        """One more; it is in the file before this returns."""
        outcome.commit = self._commit
        self._take(outcome)
        if self._results is not None:
            with self._results.open("a") as file:
                file.write(json.dumps(vars(outcome)) + "\n")

    def seeds(self, first: int, number: int | None) -> Iterator[int]:
        """Those from ``first`` on that were not played yet; ``number`` None: without end."""
        return (
            seed
            for seed in (count(first) if number is None else range(first, first + number))
            if seed not in self.played
        )

    def progress(self, seeds: int, simulated: float, took_s: float) -> str:
        """One line; of this run its seeds and speed, of the campaign the sums."""
        return (
            f"{time.strftime('%H:%M:%S')} {len(self.played)} seeds, {self.simulated:.0f} simulated seconds, {len(self.failed)} failed; "
            f"this run {seeds} seeds, {simulated / max(took_s, 1e-9):.1f} simulated seconds a second; "
            f"{len(not_covered(self.counts))} not covered\n"
        )

    def summary(self) -> str:
        missing = not_covered(self.counts)
        commits = ", ".join(f"{number} at {commit or 'an unknown commit'}" for commit, number in self.commits.items())
        return (
            table(self.counts)
            + "".join(f"not covered: {what}\n" for what in missing)
            + f"{len(self.played)} seeds ({commits}), {self.simulated:.0f} simulated seconds, "
            f"{len(self.failed)} failed {self.failed or ''}\n"
        )


def _commit() -> str:
    """The commit that is played, with a + if files were changed; empty: unknown."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=crew.ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()


def outcomes(
    jobs: Iterator[dict[str, Any]], workers: int, limit_s: float, player: list[str] | None = None
) -> Generator[Outcome, None, None]:
    """Play these, in this process or in others; a player that dies or hangs fails its seed."""
    if workers == 0:
        yield from (play(**job) for job in jobs)
        return
    with closing(
        crew.Crew(player or crew.command_of("tests.sim.campaign", "played"), workers, limit_s).run(jobs)
    ) as all_done:
        for done in all_done:
            if done.trouble:
                yield Outcome(done.job["seed"], failure=f"the process that played it: {done.trouble}\n")
            else:
                yield Outcome(**done.answer)


def conduct(campaign: Campaign, found: Iterator[Outcome], seconds: float, nodes: int, work: str, until: float) -> None:
    """Take in what is found, until there is no more or it is time to stop; tell of failures at once, and of progress."""
    began = told = time.monotonic()
    seeds, simulated = 0, 0.0
    for outcome in found:
        campaign.add(outcome)
        seeds, simulated, now = seeds + 1, simulated + outcome.seconds, time.monotonic()
        if outcome.failure:
            sys.stdout.write(
                f"seed {outcome.seed} FAILED; again: {command(outcome.seed, seconds, nodes, work)}\n{outcome.failure}"
            )
            sys.stdout.flush()
        if now - told >= PROGRESS_S:
            told = now
            sys.stderr.write(campaign.progress(seeds, simulated, now - began))
        if now >= until:
            return
