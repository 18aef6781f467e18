"""One batch of one conversation, written by one statement: the usual write, and the cheapest.

The statement is a transaction of its own. It holds what was known of the conversation against the
file, so that it fails and changes nothing when another process has written there meanwhile.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from msgspec.structs import replace

from treadle.stores.sqlite_file import STEPS
from treadle.stores.sqlite_heads import COLUMNS, Known, row_of
from treadle.stores.sqlite_unit import PIECES, NewBatch, piece_size, place_of

_NAMES = COLUMNS.split(", ")
_SAME = " AND ".join(f"{name} IS NEW.known_{name}" for name in _NAMES)
_SET = ", ".join(f"{name} = NEW.{name}" for name in _NAMES[2:])
_COLUMNS = (
    f"{COLUMNS}, {', '.join(f'known_{name}' for name in _NAMES)}, run, place, piece, rest, size"
)
_COUNT = _COLUMNS.count(",") + 1
_TAKE = f"INSERT INTO step VALUES ({', '.join('?' * _COUNT)})"  # noqa: S608 nothing but marks
_VIEW = f"CREATE TEMP VIEW step ({_COLUMNS}) AS SELECT {', '.join(['NULL'] * _COUNT)}"
_TRIGGER = f"""
CREATE TEMP TRIGGER take_step INSTEAD OF INSERT ON step BEGIN
  SELECT RAISE(ABORT, 'changed meanwhile')
    WHERE NOT EXISTS (SELECT 1 FROM conversations WHERE key = NEW.key AND {_SAME})
    OR (SELECT value FROM meta WHERE name = 'schema') IS NOT {len(STEPS)};
  INSERT INTO batches VALUES (NEW.place, NEW.piece);
  INSERT INTO batches SELECT NEW.place + 1 + value, substr(NEW.rest, 1 + value * NEW.size, NEW.size)
    FROM json_each('{list(range(PIECES - 1))}')
    WHERE NEW.rest IS NOT NULL AND value * NEW.size < length(NEW.rest);
  UPDATE conversations SET {_SET} WHERE key = NEW.key;
  INSERT INTO runs SELECT NEW.run, NEW.key WHERE NEW.run IS NOT NULL;
END
"""  # noqa: S608 the names and numbers are ours


def learn_steps(connection: sqlite3.Connection) -> None:
    """Have a connection take steps: a view and a trigger of its own, which are not in the file."""
    connection.execute(_VIEW)
    connection.execute(_TRIGGER)


def take_step(connection: sqlite3.Connection, batch: NewBatch, known: Known) -> tuple[Known, Any]:
    """Write a batch, and return what is known from now on and what its writer is told.

    It has no media, and begins one run at most.

    Raises:
        TreadleError: there can be no such batch, by what was known.
        sqlite3.IntegrityError: the file is not as it was known, or the run has begun before;
            nothing was written.
    """
    head, told = batch.decide(known.head)
    after = replace(known, head=head)
    run = batch.runs[0] if batch.runs else None
    size = piece_size(batch.data)
    cut = (place_of(known.key, head.revision), batch.data[:size], batch.data[size:] or None, size)
    connection.execute(_TAKE, (*row_of(after), *row_of(known), run, *cut))
    return after, told
