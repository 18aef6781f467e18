"""Where each run began: one small file for each, that only one conversation can make.

A crash may leave a file of a run whose batch was never written. So a file counts only when the
journal that it names has the run at that place.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from treadle.errors import ConversationNotFound, CorruptJournal
from treadle.ids import new_stamp
from treadle.ports.store import begins
from treadle.stores.file_disk import file_name, sync_folder, write_fresh
from treadle.stores.file_folder import Folder, Journal
from treadle.stores.file_lines import Line, batch_of, line_at
from treadle.stores.refusals import run_not_found

_BEGAN = b'"run.began"'


class _Beginning(Struct, frozen=True):
    """Which conversation, of those that had its ID, and at which byte of its journal."""

    conversation_id: str
    created_at: int
    start: int


class RunIsThere(Exception):
    """There is a file of this run already, whatever it is worth."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


class Runs:
    """The files of all runs."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def begin(self, journal: Journal, run_ids: Sequence[str]) -> None:
        """Note that runs begin with the next line of a journal, all of them or none."""
        beginning = _Beginning(journal.head.conversation_id, journal.created_at, journal.end)
        made: list[str] = []
        try:
            for run_id in run_ids:
                if not self._made(self._path(run_id), msgspec.json.encode(beginning)):
                    raise RunIsThere(run_id)
                made.append(run_id)
            if made:
                sync_folder(self._folder.runs)
        except (RunIsThere, OSError):
            self.undo(made)
            raise

    def undo(self, run_ids: Sequence[str]) -> None:
        """Forget runs whose line was not written, while their journal is still locked."""
        for run_id in run_ids:
            self._path(run_id).unlink(missing_ok=True)

    def find(self, run_id: str) -> str:
        """Return the conversation that a run is in, or raise `RunNotFound`.

        Raises:
            CorruptJournal: damage hides whether it is there.
        """
        found = self._beginning(run_id)
        with suppress(ConversationNotFound):
            if found is not None:
                with self._folder.opened(found.conversation_id) as journal:
                    if _has(journal, found, run_id):
                        return found.conversation_id
        raise run_not_found(run_id)

    def settle(self, run_id: str) -> bool:
        """Forget a run that never began; return whether its ID is free now.

        Only with the journal locked is it certain that nobody is about to write the run.

        Raises:
            CorruptJournal: damage hides whether it has begun; it is not forgotten.
        """
        with self._folder.settling():
            found = self._beginning(run_id)
            if found is None:
                return True
            try:
                with self._folder.opened(found.conversation_id, alone=True) as journal:
                    if _has(journal, found, run_id):
                        return False
                    self.undo([run_id])
            except ConversationNotFound:
                self.undo([run_id])
            return True

    def forget(self, conversation_id: str, created_at: int, run_ids: Sequence[str]) -> None:
        """Forget the runs of a conversation that was deleted."""
        if not run_ids:
            return
        with self._folder.settling():
            for run_id in run_ids:
                with suppress(CorruptJournal):  # it may be of the original of a copy: it stays
                    found = self._beginning(run_id)
                    if found is not None and (found.conversation_id, found.created_at) == (
                        conversation_id,
                        created_at,
                    ):
                        self.undo([run_id])

    def _path(self, run_id: str) -> Path:
        return self._folder.runs / file_name(run_id)

    def _beginning(self, run_id: str) -> _Beginning | None:
        path = self._path(run_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Beginning)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise CorruptJournal(
                f"{path} does not say where run {run_id!r} began: {error}. Restore a copy, or "
                "delete this file if there is no such run."
            ) from error

    def _made(self, path: Path, data: bytes) -> bool:
        beside = path.with_name(f".{new_stamp()}")
        try:
            write_fresh(beside, data)
            os.link(beside, path)  # whole from its first moment, and only where there is none
        except FileExistsError:
            return False
        finally:
            beside.unlink(missing_ok=True)
        return True


def runs_in(lines: Sequence[Line], path: Path) -> list[str]:
    """Return the runs that begin in these lines."""
    return [
        run_id
        for line in lines
        if _BEGAN in line.rest
        for run_id in begins(batch_of(line, str(path)).entries)
    ]


def _has(journal: Journal, found: _Beginning, run_id: str) -> bool:
    if journal.created_at != found.created_at:
        return False
    line = line_at(journal.fd, found.start, journal.end, journal.path)
    if line is None:
        return False
    # A crash may have left the note, and another batch stand there since.
    return any(entry.run_id == run_id for entry in batch_of(line, str(journal.path)).entries)
