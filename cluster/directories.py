"""Data directories as a whole: one is replaced by another that was made beside it.

Knows: the names beside a directory, renames, what is durable. Must not know: what is in a directory, who has it replaced.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from cluster.errors import CoordinationError, UsageError

BEFORE: Final = ".before-recover"
BESIDE: Final = ".recovered"


def sync_directory(path: str) -> None:
    """Have it survive a power cut which names there are. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def true_path(directory: str) -> str:
    """The one name of a directory, however it was given: what is beside it is found by appending to this."""
    return os.path.realpath(directory)


def refuse_gap(directory: str) -> None:
    """Raises CoordinationError between the two renames of ``replace``: who began anew there would grant at once."""
    path = true_path(directory)
    if os.path.isdir(path + BESIDE) and not holds_anything(path):
        raise interrupted(path)


def holds_anything(path: str) -> bool:
    """False for a directory that is missing or empty: what starts a node may make an empty one first."""
    try:
        return bool(os.listdir(path))
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)


def interrupted(path: str) -> CoordinationError:
    return CoordinationError(
        f"{path!r} is missing or empty, and {path + BEFORE!r} is there: an earlier recover was interrupted",
        f"rename {path + BESIDE!r} to {path!r} if it exists; else rename the old one back and recover again",
    )


def refuse_fixed(path: str) -> None:
    """Raises UsageError if the directory could not be renamed where it is. Nothing is changed.

    It is tried with a name that is taken by a directory that is not empty: that is never done, and whatever else is in the way is told
    first (a mount point, a directory above that may not be written to, a file system that moves no directories).
    """
    try:
        taken = path + BEFORE + ".new"
        os.makedirs(os.path.join(taken, "taken"), exist_ok=True)
        try:
            os.rename(path, taken)
        finally:
            os.rmdir(os.path.join(taken, "taken"))
            os.rmdir(taken)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return
        reason = "it is a mount point" if error.errno == errno.EBUSY else error.strerror
        raise UsageError(
            f"data directory {path!r} cannot be replaced by another: {reason}",
            "copy it to a directory beside which others can be made, recover that one, and copy it back into this one, emptied",
        ) from None


def replace(path: str) -> None:
    """Put the directory beside it in its place, and keep it under another name. After an end in between ``refuse_gap`` refuses."""
    os.rename(path, path + BEFORE)
    os.rename(path + BESIDE, path)
    sync_directory(os.path.dirname(path))
