"""Fencing by a SQL database: the token stands beside the data, and the database compares it in the statement that writes.

Knows: the few pieces of SQL that this takes, in what SQLite, PostgreSQL and MySQL share where nothing else is said.
Must not know: any driver, any connection; it makes text, and never puts a value into it.

Two ways, each enough by itself:

- A column. ``UPDATE stock SET amount = ?, fencing_token = ? WHERE id = ? AND fencing_token <= ?``: the row refuses older tokens. For rows
  that exist and are only updated; a deleted row forgets its token.
- A table of fences. In one transaction first ``raise_fence()``, then any statements at all: inserts, deletes, several tables.

>>> import sqlite3
>>> db = sqlite3.connect(":memory:")
>>> _ = db.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, amount INTEGER, " + column_definition() + ")")
>>> _ = db.execute("INSERT INTO stock (id, amount) VALUES (1, 10)")
>>> statement = f"UPDATE stock SET amount = ?, {assignment()} WHERE id = ? AND {condition()}"
>>> with db:
...     confirm(db.execute(statement, (20, 9, 1, 9)).rowcount, "stock", 9)
>>> with db:
...     confirm(db.execute(statement, (30, 7, 1, 7)).rowcount, "stock", 7)
Traceback (most recent call last):
...
cluster.errors.FencedError: 'stock': no row took the write of token 7. stop this work if the row exists: a newer holder has written it
>>> db.close()
"""

from __future__ import annotations

import re
from typing import Final

from cluster.errors import FencedError, UsageError
from cluster.limits import NAME_MAX_BYTES

COLUMN: Final = "fencing_token"
TABLE: Final = "tenure_fences"

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_TABLE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}")
_PLACEHOLDER = re.compile(r"\?|%s|[:$][0-9]+|:[A-Za-z_][A-Za-z0-9_]*|%\([A-Za-z_][A-Za-z0-9_]*\)s")


def _column(value: object) -> str:
    if not isinstance(value, str) or _COLUMN.fullmatch(value) is None:
        raise UsageError(
            f"column {value!r} is not a plain SQL name", "use at most 63 letters, digits and _, no digit first"
        )
    return value


def _table(value: object) -> str:
    if not isinstance(value, str) or _TABLE.fullmatch(value) is None:
        raise UsageError(
            f"table {value!r} is not a plain SQL name", "write table or schema.table: letters, digits and _"
        )
    return value


def _placeholder(value: object) -> str:
    if not isinstance(value, str) or _PLACEHOLDER.fullmatch(value) is None:
        raise UsageError(f"placeholder {value!r} is none of a driver's", "write ?, %s, :1, $1, :token or %(token)s")
    return value


def column_definition(column: str = COLUMN) -> str:
    """For CREATE TABLE: the column in which a row keeps the largest token that wrote it. Rows begin with 0, below every token.

    Raises:
        UsageError: not a plain SQL name; so for all of this module.
    """
    return f"{_column(column)} BIGINT NOT NULL DEFAULT 0"


def add_column(table: str, column: str = COLUMN) -> str:
    """The statement that adds the column to a table that exists.

    >>> add_column("stock")
    'ALTER TABLE stock ADD COLUMN fencing_token BIGINT NOT NULL DEFAULT 0'
    """
    return f"ALTER TABLE {_table(table)} ADD COLUMN {column_definition(column)}"


def assignment(column: str = COLUMN, *, placeholder: str = "?") -> str:
    """For SET: the writer's token becomes the row's. Its value is ``lease.token``.

    >>> assignment(placeholder="%(token)s")
    'fencing_token = %(token)s'
    """
    return f"{_column(column)} = {_placeholder(placeholder)}"


def condition(column: str = COLUMN, *, placeholder: str = "?") -> str:
    """For WHERE: the row was written by no newer holder. Its value is ``lease.token``, as in ``assignment``: one without the other is
    no protection. A statement that it refuses has begun a transaction all the same: roll it back, or its locks keep the holder out.

    >>> condition(placeholder=":token")
    'fencing_token <= :token'
    """
    return f"{_column(column)} <= {_placeholder(placeholder)}"


def fences_schema(table: str = TABLE) -> str:
    """The statement that makes the table of fences, if it is not there."""
    return (
        f"CREATE TABLE IF NOT EXISTS {_table(table)} "
        f"(resource VARCHAR({NAME_MAX_BYTES}) NOT NULL PRIMARY KEY, fencing_token BIGINT NOT NULL)"
    )


def raise_fence(table: str = TABLE, *, resource: str = "?", token: str = "?") -> str:
    """The statement that lets this writer pass, and from then on no older one. For SQLite (3.24 or newer) and PostgreSQL.

    Run it first in the transaction that writes, with the values resource and token, and put its row count to ``confirm``: none means
    fenced. It locks the fence until the transaction ends, so that no two writers of a resource overlap.

    Args:
        table: as in ``fences_schema``.
        resource, token: the driver's placeholders.
    """
    name = _table(table)
    return (
        f"INSERT INTO {name} AS fence (resource, fencing_token) VALUES ({_placeholder(resource)}, {_placeholder(token)}) "
        "ON CONFLICT (resource) DO UPDATE SET fencing_token = excluded.fencing_token "
        "WHERE fence.fencing_token <= excluded.fencing_token"
    )


def confirm(row_count: int, resource: str, token: int) -> None:
    """Judge a fenced statement by the number of rows that it changed (``cursor.rowcount``).

    Args:
        row_count: what the driver says.
        resource, token: for the error's text.

    Raises:
        FencedError: no row was changed. Roll the transaction back.
        UsageError: the driver does not say how many (-1): nothing is known, and nothing may be concluded.
    """
    if isinstance(row_count, bool) or not isinstance(row_count, int) or row_count < 0:
        raise UsageError(
            f"{resource!r}: row count {row_count!r} says nothing", "give the cursor's rowcount after the UPDATE"
        )
    if row_count == 0:
        raise FencedError(
            f"{resource!r}: no row took the write of token {token}",
            "stop this work if the row exists: a newer holder has written it",
        )
