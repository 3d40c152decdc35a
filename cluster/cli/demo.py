"""``demo``: the whole story on one machine in a quarter of a minute, told as it happens, judged at the end.

Knows: the order of events and how they are told. Must not know: how a node or a client works.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from cluster.cli.demo_stage import Actor, Stage
from cluster.cli.options import JSON, LOG_FORMAT, Option, Parser, count, log_level, seconds
from cluster.cli.output import emit_json
from cluster.cli.runs import Run, judge
from cluster.env import boot_clock
from cluster.errors import CoordinationError

T = TypeVar("T")

DESCRIPTION = """
Start three nodes on free ports of this machine and let several workers contend for one job. Kill the raft leader's node, then
the worker that leads, show who takes over and how fast, start the node again, and look at the end whether two workers ever ran
at the same time. Nothing is left behind. Exits with 0 only if no two runs overlapped and the tokens only rose.
"""
EXAMPLE = """
examples:
  {prog} demo
  {prog} demo --workers 8 --seconds 10 --json
"""

JOB = "demo/job"
LEASE_S = 1.5
RUN_S = 0.4
_LOOK_S = 0.01
_START_PATIENCE_S = 8.0
_TAKEOVER_PATIENCE_S = 5.0
# The whole ends within half a minute, also where the machine is too busy for it to come out well.
_LIMIT_S = 29.0
_ENDING_S = 4.0


def declare(parser: Parser) -> None:
    parser.add_options(
        (
            Option("--workers", "how many processes contend for the job", count(2, 16), 4, metavar="N"),
            Option("--seconds", "how long the workers contend", seconds(4, 16), 12.0, metavar="S"),
            JSON,
            LOG_FORMAT,
            log_level("error"),
        )
    )


def execute(args: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, _stop)
    stage = Stage(args.workers, JOB, LEASE_S, RUN_S)
    try:
        play = Play(stage, Teller(quiet=args.json))
        summary = play.perform(args.seconds)
        if not summary["ok"]:
            sys.stderr.write(stage.logs())
    except CoordinationError:
        sys.stderr.write(stage.logs())
        raise
    finally:
        stage.close()
    if args.json:
        emit_json(summary)
    return 0 if summary["ok"] else 1


def _stop(number: int, _frame: object) -> None:
    sys.exit(128 + number)


class Teller:
    """Says what happens, with the seconds since the start. On a terminal, who leads is kept in one line; elsewhere it is a line each.

    Args:
        quiet: stdout belongs to JSON; people are told on stderr.
    """

    def __init__(self, quiet: bool) -> None:
        self._out = sys.stderr if quiet else sys.stdout
        self._terminal = self._out.isatty()
        self._began = boot_clock()
        self._unfinished = False

    def say(self, text: str, *, strong: bool = False) -> None:
        self._finish()
        self._write(self._line(f"\x1b[1m{text}\x1b[0m" if strong and self._terminal else text) + "\n")

    def note(self, text: str) -> None:
        """A line that belongs to the one before."""
        self._finish()
        self._write(" " * 10 + text + "\n")

    def leads(self, text: str) -> None:
        if self._terminal:
            self._write("\r\x1b[K" + self._line(text))
            self._unfinished = True
        else:
            self._write(self._line(text) + "\n")

    def _line(self, text: str) -> str:
        return f"{boot_clock() - self._began:6.1f} s  {text}"

    def _finish(self) -> None:
        if self._unfinished:
            self._write("\n")
            self._unfinished = False

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class Play:
    """The events in their order."""

    def __init__(self, stage: Stage, teller: Teller) -> None:
        self._stage = stage
        self._tell = teller
        self._shown = 0
        self._limit = boot_clock() + _LIMIT_S - _ENDING_S
        self._takeover_ms: dict[str, int] = {}

    def perform(self, length_s: float) -> dict[str, Any]:
        """Play for ``length_s`` seconds from the first run on. Returns the summary.

        Raises:
            CoordinationError: the nodes or the workers did not get going in time.
        """
        stage = self._stage
        self._tell.say(f"three nodes start on this machine: {', '.join(stage.addresses)}", strong=True)
        for node in stage.nodes:
            stage.start(node)
        leader = self._until(self._raft_leader, _START_PATIENCE_S, "no raft leader was elected")
        self._tell.say(f"they elected a raft leader: {leader.label}")
        self._tell.say(f"{len(stage.workers)} workers contend for {JOB!r}, {RUN_S * 1000:.0f} ms a run", strong=True)
        for worker in stage.workers:
            stage.start(worker)
        self._until(stage.runs, _START_PATIENCE_S, "no worker was granted the job")
        end = boot_clock() + length_s
        self._watch_until(boot_clock() + length_s * 0.15)
        self._kill_raft_leader(leader)
        self._watch_until(end - length_s * 0.5)
        self._kill_holder()
        self._watch_until(end - length_s * 0.25)
        self._tell.say(f"node {leader.label} starts again from its data directory", strong=True)
        stage.start(leader)
        self._watch_until(end)
        hung = stage.end_workers(_ENDING_S - 1.0)
        return self._summary(hung)

    def _kill_raft_leader(self, at_start: Actor) -> None:
        leader = self._raft_leader() or at_start
        at = self._stage.kill(leader)
        self._tell.say(f"kill -9 of the raft leader, node {leader.label}", strong=True)
        self._takeover("raft_leader_killed", at, "from the kill to the next run, under a new raft leader")

    def _kill_holder(self) -> None:
        actor, run, at = self._until(self._stage.kill_holder, _TAKEOVER_PATIENCE_S, "no worker was caught in a run")
        self._tell.say(f"kill -9 of {actor.label}, which leads with token {run.token}", strong=True)
        self._takeover(
            "holder_killed", at, f"from the kill to the next run, when its lease of {LEASE_S:g} s had run out"
        )

    def _takeover(self, what: str, killed_at: float, explained: str) -> None:
        def next_run() -> Run | None:
            self._show()
            return next((run for run in self._stage.runs() if run.start > killed_at), None)

        run = self._until(next_run, _TAKEOVER_PATIENCE_S, "nobody took over")
        self._takeover_ms[what] = round((run.start - killed_at) * 1000)
        self._tell.note(f"takeover in {self._takeover_ms[what]:,} ms: {explained}")

    def _raft_leader(self) -> Actor | None:
        from cluster.client import connect

        try:
            with connect(self._stage.addresses, timeout=1.0) as coordinator:
                status = coordinator.status()
        except CoordinationError:
            return None
        if not status.has_quorum:
            return None
        return next((node for node in self._stage.nodes if node.label == status.leader), None)

    def _until(self, look: Callable[[], T | None], patience_s: float, complaint: str) -> T:
        until = min(boot_clock() + patience_s, self._limit)
        while not (found := look()):
            dead = [
                node.label for node in self._stage.nodes if node.process and not node.alive and node.dead_at is None
            ]
            if dead:
                raise CoordinationError(f"node {dead[0]} ended by itself", "its log is above")
            if boot_clock() >= until:
                raise CoordinationError(
                    f"{complaint} in time", "the logs are above; a busy machine may need another try"
                )
            # Processes tell nobody that they are ready or gone: look again.
            time.sleep(_LOOK_S)
        return found

    def _watch_until(self, moment: float) -> None:
        while boot_clock() < min(moment, self._limit):
            self._show()
            # What the workers wrote is shown as it comes, for people.
            time.sleep(_LOOK_S)

    def _show(self) -> None:
        runs = self._stage.runs()
        for run in runs[self._shown :]:
            self._tell.leads(f"worker {run.worker} leads with token {run.token}")
        self._shown = len(runs)

    def _summary(self, hung: list[str]) -> dict[str, Any]:
        runs = self._stage.runs()
        verdict = judge(runs)
        ok = verdict.good and bool(runs) and not hung and len(self._takeover_ms) == 2
        self._tell.say("done", strong=True)
        self._tell.note(f"{len(runs)} runs by {len({run.worker for run in runs})} workers")
        self._tell.note(f"two at the same time: {len(verdict.overlaps) or 'never'}")
        self._tell.note(f"tokens: {'only rose' if not verdict.falls else f'fell {len(verdict.falls)} times'}")
        for label in hung:
            self._tell.note(f"{label} did not end when asked to")
        return {
            "ok": ok,
            "nodes": len(self._stage.nodes),
            "workers": len(self._stage.workers),
            "runs": len(runs),
            "overlaps": len(verdict.overlaps),
            "token_falls": len(verdict.falls),
            "takeover_ms": self._takeover_ms,
            "hung": hung,
        }
