"""Recorded exchanges with providers, and how a check of them went."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.providers._failure import Asked

ROOT = Path(__file__).resolve().parent.parent
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One exchange: what was asked, and what came back."""

    id: str
    host: str
    request: Json
    status: int
    content_type: str
    body: bytes
    path: str = ""
    retry_after: str = ""

    @property
    def is_stream(self) -> bool:
        """Whether the answer came as events."""
        return "event-stream" in self.content_type

    @property
    def asked(self) -> Asked:
        """Who was asked for what."""
        return Asked(self.host, str(self.request.get("model", "")))


@dataclass(slots=True)
class Tally:
    """How one check went over all recordings it concerns."""

    name: str
    seen: int = 0
    notes: dict[str, int] = field(default_factory=dict[str, int])
    missed: list[str] = field(default_factory=list[str])

    def count(self, problem: str | None, recording: Recording, note: str = "") -> None:
        """Count a recording; `problem` says what went wrong with it."""
        self.seen += 1
        if note:
            self.notes[note] = self.notes.get(note, 0) + 1
        if problem:
            self.missed.append(f"{recording.id}: {problem}")


def folder() -> Path:
    """Return where the recordings are looked for."""
    return Path(os.environ.get("TREADLE_RECORDINGS") or ROOT.parent / "shared" / "recordings")


def load(protocol: str) -> list[Recording]:
    """Return all recordings of a protocol, none when its file is absent."""
    path = folder() / f"{protocol}.jsonl.gz"
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [_recording(json.loads(line)) for line in lines]


def _recording(line: Json) -> Recording:
    return Recording(
        id=line["id"],
        host=line["host"],
        request=line["request"] or {},
        status=line["status"],
        content_type=line["content_type"] or "",
        body=line["body"].encode(),
        retry_after=str(line["retry_after"] or ""),
        path=line.get("url_path") or "",
    )
