"""The error for files that are not what was written.

Knows: how damage is named. Must not know: any file format.
"""

from __future__ import annotations

import posixpath

from cluster.errors import CoordinationError

_HINT = (
    "This node must not start from it. Keep the directory for inspection, give the node an empty one and start it again: "
    "it comes back as a new incarnation and copies everything from the other nodes"
)


class StorageDamaged(CoordinationError):
    """A file of the data directory does not hold what was written to it, or two of them contradict each other.

    Nothing was loaded and nothing was changed. Not retryable: the same directory fails again.

    Attributes:
        file: the file, with its directory where that is known.
        offset: where in it the first damage is, in bytes.
        why: what is wrong there.
    """

    def __init__(self, file: str, offset: int, why: str) -> None:
        self.file = file
        self.offset = offset
        self.why = why
        super().__init__(f"{file} is damaged at offset {offset}: {why}", _HINT)

    def __reduce__(self) -> tuple[object, ...]:
        return (StorageDamaged, (self.file, self.offset, self.why))

    def within(self, directory: str) -> StorageDamaged:
        """The same, with the file's whole path."""
        return StorageDamaged(posixpath.join(directory, self.file), self.offset, self.why)
