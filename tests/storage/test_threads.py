"""The real loop, the real disk thread and this machine's disk, all at once."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from cluster.env import RealEnv, new_loop
from cluster.storage import Durability, Entry, Storage, open_storage

pytestmark = pytest.mark.fast

ROUNDS = 200


async def busy(storage: Storage, rng: random.Random, model: list[Entry]) -> int:
    """Append, cut, compact and save without waiting for each other. Returns how many syncs were answered."""
    journal, answered, saving = storage.journal, 0, False

    def done() -> None:
        nonlocal answered
        answered += 1

    def saved(error: BaseException | None) -> None:
        nonlocal saving
        assert error is None
        saving = False
        pos = storage.snapshots.index - journal[0][1]
        journal.deleteEntriesTo(pos)
        del model[:pos]

    for _ in range(ROUNDS):
        for _ in range(rng.randint(1, 5)):
            entry = (rng.randbytes(rng.choice((10, 200, 2000))), model[-1][1] + 1 if model else 1, 1)
            journal.add(*entry)
            model.append(entry)
        journal.sync(done)
        if rng.random() < 0.05 and not saving and model[-1][1] - storage.snapshots.index > 2:
            journal.deleteEntriesFrom(len(model) - 1)
            del model[-1]
        if rng.random() < 0.05 and not saving:
            saving = True
            _, index, term = model[-1]
            storage.snapshots.save(index, term, rng.randbytes(50_000), saved)
        if rng.random() < 0.7:
            await asyncio.sleep(0)
    last = asyncio.Event()
    journal.sync(last.set)
    await last.wait()
    while saving:
        last.clear()
        storage.snapshots.save(0, 0, b"", lambda error: last.set())
        await last.wait()
    assert journal[:] == model
    return answered


@pytest.mark.parametrize("durability", ["fsync", "process"])
@pytest.mark.parametrize("seed", range(2))
def test_a_busy_journal_is_whole_after_a_close_that_waits_for_nothing(
    tmp_path: Path, durability: Durability, seed: int
) -> None:
    loop = new_loop()
    env = RealEnv(loop)
    path = str(tmp_path / "n1")
    storage = open_storage(env, path, durability, segment_bytes=16_384)
    storage.meta.save(term=1)
    model: list[Entry] = []
    assert loop.run_until_complete(busy(storage, random.Random(seed), model)) == ROUNDS
    for _ in range(20):
        entry = (b"unsettled", model[-1][1] + 1, 1)
        storage.journal.add(*entry)
        model.append(entry)
        storage.journal.sync(lambda: None)
    storage.close()
    storage = open_storage(env, path, durability, segment_bytes=16_384)
    assert storage.journal[:] == model
    assert storage.snapshots.index > 0
    assert len([name for name in os.listdir(path) if name.startswith("snapshot-")]) == 1
    storage.close()
    env.close()
    loop.close()
