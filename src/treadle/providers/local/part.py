"""A model file that is not whole yet: written, hashed and kept, so that a pull can go on."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

from treadle.errors import ModelFilesError
from treadle.providers.local.catalogue import KnownModel
from treadle.providers.local.progress import Progress, ProgressReport

_CHUNK = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class PartFile:
    """The file beside the final one that grows until it is whole. Use it as a context.

    What an earlier attempt left is taken up: `length` is what is there. `label` is shown with
    the progress.
    """

    def __init__(self, model: KnownModel, target: Path, report: ProgressReport) -> None:
        self.model = model
        self.target = target
        self.path = target.with_name(target.name + ".part")
        self.label = model.name
        self.length = 0
        self.resumed = 0
        self._report = report
        self._digest = hashlib.sha256()
        self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115 closed in __exit__

    def __enter__(self) -> PartFile:
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK):
            self._take(chunk)
        self.resumed = self.length
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, chunk: bytes) -> None:
        """Append.

        Raises:
            ModelFilesError: the disk is full; what is there stays, and is taken up next time.
        """
        view = memoryview(chunk)
        while view:
            try:
                written = self._file.write(view)
            except OSError as error:
                raise self.failed(error) from error
            self._take(view[:written])
            view = view[written:]

    def restart(self) -> None:
        """Throw away what is there."""
        self._file.truncate(0)
        self._digest = hashlib.sha256()
        self.length = self.resumed = 0

    def report(self, done: int | None = None) -> None:
        """Tell how far it is; `done` counts for a source that has its bytes elsewhere."""
        count = self.length if done is None else min(done, self.model.size)
        self._report(Progress(count, self.model.size, self.label))

    def is_right(self) -> bool:
        """Whether this is the model, to the last byte."""
        return self.sha256 == self.model.sha256

    @property
    def sha256(self) -> str:
        """The hash of what is there."""
        return self._digest.hexdigest()

    def finish(self) -> Path:
        """Put the whole file in its place, in one step that a crash cannot halve.

        Raises:
            ModelFilesError: the disk is full or failing.
        """
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            self.path.replace(self.target)
        except OSError as error:
            raise self.failed(error) from error
        return self.target

    def discard(self) -> None:
        """Remove the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def require_space(self, needed: int) -> None:
        """Refuse to begin what the disk has no room for.

        Raises:
            ModelFilesError: fewer than `needed` bytes are free.
        """
        free = shutil.disk_usage(self.path.parent).free
        if free < needed:
            raise ModelFilesError(
                f"Not enough space in {str(self.path.parent)!r} for the model "
                f"{self.model.name!r}: {_megabytes(needed)} are needed, {_megabytes(free)} are "
                "free. Free some, or set TREADLE_CACHE to a folder on another disk."
            )

    def failed(self, error: OSError) -> ModelFilesError:
        """Return what to tell of a disk that took no more."""
        kept = f"The {_megabytes(self.length)} that are there are kept: the next pull goes on."
        if error.errno in _FULL:
            missing = _megabytes(self.model.size - self.length)
            return ModelFilesError(
                f"The disk is full: {str(self.path)!r} needs {missing} more "
                f"({_megabytes(self.model.size)} in all). Free some space, or set TREADLE_CACHE "
                f"to a folder on another disk. {kept}"
            )
        return ModelFilesError(f"Cannot write {str(self.path)!r}: {error.strerror}. {kept}")

    def _take(self, chunk: bytes | memoryview) -> None:
        self._digest.update(chunk)
        self.length += len(chunk)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
