"""Records in a history: was each read and write one of a register that is written once per version, by live tokens only?

Knows: the calls ``put`` and ``get`` of one key, and their intervals. Must not know: leases, how the service works.

Versions give the order of a key's writes, so that no order has to be searched for. Every write of a history has a value of its own, by
which a read names the write that it saw. Keys that are deleted must not be in it.

- ``put``: ``value``, ``expected``, ``token`` (0: under no lease); its return, when it is ok, ``version``. Its results, beside those that
  ``record`` has: ``fenced`` and ``conflict``, which changed nothing.
- ``get``: its return, when it is ok, ``version`` (0: no record), ``value`` and ``token``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.history.calls import Call

_CHANGED_NOTHING = ("fenced", "conflict", "fail")


def check_records(calls: Iterable[Call]) -> list[str]:
    """What is wrong, in words."""
    by_key: dict[str, list[Call]] = {}
    for call in calls:
        if call.op in ("put", "get"):
            by_key.setdefault(call.names[0], []).append(call)
    wrong: list[str] = []
    for key, mine in sorted(by_key.items()):
        writes = [call for call in mine if call.op == "put"]
        reads = [call for call in mine if call.op == "get" and call.result == "ok"]
        versions = _versions(key, writes, reads, wrong)
        wrong += _in_real_time(key, writes, reads, versions)
        wrong += _tokens_rise(key, writes, versions)
        wrong += _expected(key, writes, versions)
    return wrong


def _versions(key: str, writes: Sequence[Call], reads: Sequence[Call], wrong: list[str]) -> dict[str, int]:
    """The version of each value that is known to have been written; what cannot be goes to ``wrong``."""
    by_value = {write.about["value"]: write for write in writes}
    versions: dict[str, int] = {}
    told = [(write.about["value"], write.found["version"], write) for write in writes if write.result == "ok"]
    told += [(read.found["value"], read.found["version"], read) for read in reads if read.found["version"]]
    for value, version, call in told:
        written = by_value.get(value)
        if written is None:
            wrong.append(f"record {key!r}: {call.process} read {value!r}, which nobody wrote")
            continue
        if written.result in _CHANGED_NOTHING:
            wrong.append(
                f"record {key!r}: {call.process} read {value!r}, whose write was refused: {written.result} (I10)"
            )
        if versions.setdefault(value, version) != version:
            wrong.append(f"record {key!r}: {value!r} was written twice, as {versions[value]} and as {version} (I10)")
        if call.ended < written.began:
            wrong.append(f"record {key!r}: {value!r} was read at {call.ended:.4f}, before it was written")
    owners: dict[int, str] = {}
    for value, version in versions.items():
        if owners.setdefault(version, value) != value:
            wrong.append(f"record {key!r}: version {version} is that of {owners[version]!r} and of {value!r} (I2)")
    return versions


def _in_real_time(key: str, writes: Sequence[Call], reads: Sequence[Call], versions: dict[str, int]) -> list[str]:
    """Whoever asked after an answer sees at least what was answered, and writes above it."""
    wrong = []
    # A write that was not answered was there at the latest when somebody had read it.
    seen = [(read.ended, read.found["version"], read) for read in reads]
    seen += [(write.ended, write.found["version"], write) for write in writes if write.result == "ok"]
    asked = [(read.began, read.found["version"], read) for read in reads]
    asked += [
        (write.began, versions[write.about["value"]], write) for write in writes if write.about["value"] in versions
    ]
    answers = sorted(seen, key=lambda entry: entry[0])
    newest, by, position = 0, "nobody", 0
    for began, version, call in sorted(asked, key=lambda entry: entry[0]):
        while position < len(answers) and answers[position][0] < began:
            if answers[position][1] > newest:
                newest, by = answers[position][1], answers[position][2].process
            position += 1
        if version < newest or (call.op == "put" and version == newest):
            wrong.append(
                f"record {key!r}: {call.process} asked to {call.op} at {began:.4f} and had version {version}, when {by} had been answered "
                f"version {newest} before"
            )
    return wrong


def _tokens_rise(key: str, writes: Sequence[Call], versions: dict[str, int]) -> list[str]:
    """Under a name with one leader at a time, no write of an earlier holder stands above one of its successor (I10)."""
    wrong = []
    order = [(versions[write.about["value"]], write) for write in _known(writes, versions)]
    largest = 0
    for version, write in sorted(order, key=lambda entry: entry[0]):
        token = write.about["token"]
        if token < largest:
            wrong.append(
                f"record {key!r}: {write.process} wrote version {version} under token {token}, after one of {largest} (I10)"
            )
        largest = max(largest, token)
    return wrong


def _expected(key: str, writes: Sequence[Call], versions: dict[str, int]) -> list[str]:
    """Between the version that a write expected and its own there is none."""
    wrong = []
    every = sorted(versions.values())
    for write in _known(writes, versions):
        expected, version = write.about["expected"], versions[write.about["value"]]
        if expected is None:
            continue
        between = [other for other in every if expected < other < version]
        if between:
            wrong.append(
                f"record {key!r}: {write.process} expected version {expected} and wrote {version} over {between}"
            )
    return wrong


def _known(writes: Sequence[Call], versions: dict[str, int]) -> list[Call]:
    return [write for write in writes if write.about["value"] in versions]
