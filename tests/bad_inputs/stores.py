"""Folders that hold no store, or another program's."""

import sqlite3
from contextlib import closing
from pathlib import Path

from bad_inputs.rows import Row, run


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (a)")


ROWS = [
    run(
        "store of garbage",
        [],
        "cannot use the store out/skerry.sqlite: it is no SQLite file. Give another folder, "
        "or move the file away.",
        **{"out/skerry.sqlite": b"garbage" * 999},
    ),
    run(
        "out with a long name",
        ["--out", "n" * 3000],
        "(File name too long). Choose another folder.",
    ),
    run(
        "store of another program",
        [],
        "out/skerry.sqlite was made by another program, not by skerry. Choose another folder.",
        **{"out/skerry.sqlite": _foreign},
    ),
    run(
        "file in the way",
        [],
        "cannot make the folder out (File exists). Choose another folder.",
        out="mine",
    ),
    Row(
        "show what is no store",
        ("show", "mine.toml"),
        (
            "cannot use the store mine.toml: it is no SQLite file. Give another folder, or move "
            "the file away.",
        ),
        {"mine.toml": "rounds = 3"},
    ),
    Row(
        "show nothing",
        ("show", "nope"),
        ("no store at nope. Give a folder that holds a skerry.sqlite.",),
    ),
    Row(
        "show an empty folder",
        ("show", "d"),
        ("no store at d/skerry.sqlite. Give a folder that holds a skerry.sqlite.",),
        {"d/x": ""},
    ),
]
