"""The SQL pieces, against a real SQLite: A2, C2."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure import FencedError, UsageError, fenced_sql

pytestmark = pytest.mark.fast


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "stock.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, amount INTEGER)")
        connection.execute("INSERT INTO stock VALUES (1, 10)")
        yield connection


def amount(db: sqlite3.Connection) -> Any:
    return db.execute("SELECT amount FROM stock WHERE id = 1").fetchone()[0]


def test_a_row_refuses_the_token_that_was_overtaken__A2(db: sqlite3.Connection) -> None:
    db.execute(fenced_sql.add_column("stock"))
    statement = f"UPDATE stock SET amount = ?, {fenced_sql.assignment()} WHERE id = ? AND {fenced_sql.condition()}"

    def write(value: int, token: int) -> None:
        fenced_sql.confirm(db.execute(statement, (value, token, 1, token)).rowcount, "stock", token)

    write(20, 7)
    write(21, 7)
    write(30, 9)
    with pytest.raises(FencedError, match=r"'stock': no row took the write of token 7\. stop this work"):
        write(22, 7)
    assert amount(db) == 30
    write(31, 9)
    assert amount(db) == 31


def test_named_placeholders_and_another_column(db: sqlite3.Connection) -> None:
    db.execute(fenced_sql.add_column("main.stock", "owner_token"))
    set_it = fenced_sql.assignment("owner_token", placeholder=":token")
    where = fenced_sql.condition("owner_token", placeholder=":token")
    statement = f"UPDATE stock SET amount = :amount, {set_it} WHERE id = 1 AND {where}"
    assert db.execute(statement, {"amount": 5, "token": 9}).rowcount == 1
    assert db.execute(statement, {"amount": 6, "token": 8}).rowcount == 0
    assert amount(db) == 5


def test_a_column_of_a_new_table_begins_below_every_token(db: sqlite3.Connection) -> None:
    db.execute(f"CREATE TABLE other (id INTEGER, {fenced_sql.column_definition()})")
    db.execute("INSERT INTO other (id) VALUES (1)")
    assert (
        db.execute(f"UPDATE other SET {fenced_sql.assignment()} WHERE {fenced_sql.condition()}", (1, 1)).rowcount == 1
    )
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO other VALUES (2, NULL)")


def test_a_fence_guards_every_statement_of_a_transaction__A2(db: sqlite3.Connection) -> None:
    db.execute(fenced_sql.fences_schema())
    db.execute(fenced_sql.fences_schema())

    def write(value: int, token: int) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            fenced_sql.confirm(db.execute(fenced_sql.raise_fence(), ("stock", token)).rowcount, "stock", token)
            db.execute("DELETE FROM stock")
            db.execute("INSERT INTO stock VALUES (1, ?)", (value,))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    write(20, 7)
    write(21, 7)
    write(30, 9)
    with pytest.raises(FencedError):
        write(22, 7)
    assert amount(db) == 30
    # Another resource has a fence of its own.
    assert db.execute(fenced_sql.raise_fence(), ("other", 1)).rowcount == 1


def test_the_fence_of_another_name_and_driver(db: sqlite3.Connection) -> None:
    db.execute(fenced_sql.fences_schema("main.fences"))
    statement = fenced_sql.raise_fence("main.fences", resource=":resource", token=":token")
    assert db.execute(statement, {"resource": "r", "token": 2}).rowcount == 1
    assert db.execute(statement, {"resource": "r", "token": 1}).rowcount == 0


@pytest.mark.parametrize("bad", ["", "1st", "a b", "a;b", 'a"b', "a.b", "a" * 64, None, 7])
def test_what_is_no_plain_column_is_refused(bad: Any) -> None:
    for make in (fenced_sql.column_definition, fenced_sql.assignment, fenced_sql.condition):
        with pytest.raises(UsageError, match=r"column .* is not a plain SQL name"):
            make(bad)
    assert fenced_sql.column_definition("a" * 63)


@pytest.mark.parametrize("bad", ["", "a.b.c", "a b", "stock; DROP TABLE stock", "a.", ".a", None])
def test_what_is_no_plain_table_is_refused(bad: Any) -> None:
    for make in (fenced_sql.add_column, fenced_sql.fences_schema, fenced_sql.raise_fence):
        with pytest.raises(UsageError, match=r"table .* is not a plain SQL name"):
            make(bad)


@pytest.mark.parametrize("bad", ["", "7", "? OR 1=1", ":", "%(a b)s", None])
def test_what_is_no_placeholder_is_refused(bad: Any) -> None:
    with pytest.raises(UsageError, match=r"placeholder .* is none"):
        fenced_sql.condition(placeholder=bad)


@pytest.mark.parametrize("good", ["?", "%s", ":1", "$1", ":token", "%(token)s"])
def test_every_drivers_placeholder_is_known(good: str) -> None:
    assert fenced_sql.condition(placeholder=good) == f"fencing_token <= {good}"


@pytest.mark.parametrize("count", [-1, None, True])
def test_a_row_count_that_says_nothing_is_no_success(count: Any) -> None:
    with pytest.raises(UsageError, match="says nothing"):
        fenced_sql.confirm(count, "stock", 7)
