"""Whose cancellation is it: waiting for work in tasks without mixing up the caller's cancellation and ours.

Knows: tasks, futures, cancellation. Must not know: what an ending means (``_engine``), how a lease is acquired.

An action is a task of its own, so that the two stay apart by construction, on every Python: the caller's cancellation arrives in the
task that awaits the elector, ours (the lease is lost) goes to the child. The body of an ``async with`` has no task of its own; there
the task is cancelled and the cancellation taken back at the end, as ``asyncio.timeout`` does it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from cluster.client import AsyncCoordinator, AsyncLease
from cluster.errors import CoordinationError
from tenure import context
from tenure._asking import holder_of
from tenure._engine import HOLDER_TIMEOUT_S, Run

Acquire = Callable[[str], Awaitable[AsyncLease | None]]
Work = Callable[[Run[Any], AsyncLease], Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)

_LOST = "the lease was lost"
# Besides a cancellation, what a signal handler may raise while a task takes a step.
_GIVING_UP = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)


async def lead(run: Run[Any], acquire: Acquire, work: Work, *, cancels: bool) -> None:
    """Acquire, work, release: the one order of every form that does not run in its caller's thread.

    Args:
        run: of the name that is stored.
        acquire: gets the lease, or None.
        work: makes the child's coroutine. It asks ``run.may_begin`` first, and writes down how the work ended.
        cancels: cancel the work once when the lease is lost.

    Raises:
        CoordinationError: of the acquisition.
        BaseException: the caller's cancellation while it waits; later it is kept in ``run.given_up``.
    """
    try:
        lease = await acquire(run.name)
    except BaseException as error:
        run.unanswered(error)
        raise
    if lease is None:
        run.passed_over()
        return
    # Nothing is awaited between the grant and the ``try``, so no cancellation comes between them.
    try:
        run.granted(lease)
        await _work(run, lease, work, cancels)
    finally:
        await give_back(run, lease)


async def _work(run: Run[Any], lease: AsyncLease, work: Work, cancels: bool) -> None:
    context.push(lease)
    try:
        task = asyncio.get_running_loop().create_task(work(run, lease), name=f"tenure {run.name}")
    finally:
        context.remove(lease)
    keep_private(task)
    try:
        await attend(run, lease, task, cancels=cancels)
    except GeneratorExit:
        leave(run, lease, task)
        raise


async def find_holder(run: Run[Any], aio: AsyncCoordinator) -> None:
    """For a run that was skipped: who holds the name, if that can be found out."""
    try:
        run.holder = holder_of(await aio.state(run.name, timeout=HOLDER_TIMEOUT_S))
    except CoordinationError as error:
        # The run was skipped either way; who holds the name is for people to read.
        log.debug("holder.unknown name=%s error=%s", run.name, error)


def keep_private(task: asyncio.Task[Any]) -> None:
    """Take a child out of ``asyncio.all_tasks``: whoever cancels all tasks, as ``asyncio.run`` does at its end, means its parent.

    The parent passes the cancellation on, once. Cancelled by both, the child would be cancelled a second time in its clean-up.
    """
    asyncio.tasks._unregister_task(task)


async def until_done(task: asyncio.Task[Any]) -> BaseException | None:
    """Wait until a child has ended, whatever happens. The caller's cancellation is passed on to it.

    Returns:
        That cancellation, which is the caller's to go on with; None: what the child ended in is its own.
    """
    given_up: BaseException | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except _GIVING_UP as error:
            given_up = given_up or error
            task.cancel()
    return given_up


async def attend(run: Run[Any], lease: AsyncLease, task: asyncio.Task[None], *, cancels: bool) -> None:
    """Wait until the work has ended, whatever happens, and write down how.

    The caller's cancellation is passed on to the work and kept in ``run.given_up``; it does not end the waiting (rules 4 and 5).

    Args:
        cancels: cancel the work once when the lease is lost.
    """
    lost = Alarm(lease)
    try:
        while not task.done():
            try:
                waited_for = {task} if lost.future.done() else {task, lost.future}
                await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            except _GIVING_UP as error:
                run.gave_up(error)
                task.cancel()
                continue
            if cancels and lost.future.done() and not task.done() and not run.told:
                run.told = True
                log.warning("lease.lost name=%s token=%d: its action is cancelled", run.name, lease.token)
                task.cancel(_LOST)
    finally:
        lost.disarm()
    try:
        task.result()
    except BaseException as error:
        run.failed(error)


async def give_back(run: Run[Any], lease: AsyncLease) -> None:
    """Release once, and wait for it; a cancellation that comes meanwhile is kept in ``run.given_up`` and raised later (rule 5)."""
    if run.released:
        return
    run.released = True
    try:
        # Under way from here on, also when nobody waits for it any more.
        future = lease.begin_release(run.outcome())
        while not future.done():
            try:
                await asyncio.wait({future})
            except _GIVING_UP as error:
                run.gave_up(error)
        future.result()
    except CoordinationError as error:
        # The work is done and its ending is the caller's; the lease runs out by itself.
        log.warning("release.unconfirmed name=%s token=%d error=%s", run.name, lease.token, error)


def leave(run: Run[Any], lease: AsyncLease, task: asyncio.Task[None]) -> None:
    """The caller's coroutine was closed, so nobody can wait: the work is told to end, and the lease follows it."""
    run.released = True
    if task.get_loop().is_closed():
        # The work will never take another step.
        lease.release_soon(run.outcome())
        return
    task.add_done_callback(lambda _: lease.release_soon(run.outcome()))
    task.cancel()


class Alarm:
    """A future of this loop that is done when the lease is lost."""

    def __init__(self, lease: AsyncLease) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = loop.create_future()
        self.disarm = lease.lost.on_set(lambda: call_loop(loop, self._ring))

    def _ring(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class BodyCancel:
    """Cancels the task that entered an ``async with`` once its lease is lost, and knows afterwards whose cancellation ended the body."""

    def __init__(self, run: Run[Any]) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("async with needs a task to run in")
        self._run = run
        self._task = task
        self._over = False
        self._disarm: Callable[[], None] | None = None
        self._before = 0
        if sys.version_info >= (3, 11):
            self._before = task.cancelling()

    def arm(self, lease: AsyncLease) -> None:
        loop = asyncio.get_running_loop()
        self._disarm = lease.lost.on_set(lambda: call_loop(loop, self._tell))

    def _tell(self) -> None:
        # The loop runs this, so the task does not run: it stands at an await of the body, or has left it.
        if not self._over and not self._run.told:
            self._run.told = True
            log.warning("lease.lost name=%s: the task of its body is cancelled", self._run.name)
            self._task.cancel(_LOST)

    def ended(self, error: BaseException | None) -> bool:
        """The body has ended with ``error``: whether by our cancellation, and by no other."""
        self._over = True
        if self._disarm is not None:
            self._disarm()
        if not self._run.told:
            return False
        if sys.version_info >= (3, 11):
            alone = self._task.uncancel() <= self._before
        else:
            alone = error is not None and error.args == (_LOST,)
        return alone and isinstance(error, asyncio.CancelledError)


def call_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    """Run ``work`` on a loop, from any thread. A loop that is closed has nobody to tell."""
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:
        log.debug("loop.closed: nobody is left to be told")
