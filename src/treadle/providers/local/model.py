"""Local: a model that runs in this process, behind the Chat Completions codec."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Literal

from treadle.errors import BadReply, ConfigError
from treadle.ports.model import (
    DEFAULT_SETTINGS,
    ModelDelta,
    ModelProfile,
    ModelReply,
    ModelRequest,
    ModelSettings,
)
from treadle.ports.transport import Transport
from treadle.providers.local.catalogue import known_model
from treadle.providers.local.content import check_gguf
from treadle.providers.local.llama import ModelFile, in_thread, library, load, usable_threads
from treadle.providers.local.progress import Progress, ProgressReport, TerminalProgress
from treadle.providers.local.transport import LlamaTransport, Ready
from treadle.providers.local.weights import PATH_VARIABLE, known_content, pull
from treadle.providers.openai.client import OpenAI

SETTINGS = ModelSettings(temperature=0.0, max_output_tokens=1024)
"""A small model is at its best when it says what is likeliest, and may otherwise never end."""

ToolCalls = Literal["constrained", "native"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Local:
    """A small model on this machine: no key, no server, no network once its file is here.

    `model` is a known name ("qwen2.5-coder-0.5b", "smollm2-135m"), the path of a GGUF file, or ""
    for what TREADLE_LOCAL_MODEL names, else the default. A known model that is not here is
    fetched at the first request, with its progress on stderr or told to `progress`.
    `context` is the window in tokens, `threads` what to compute with (None: one a core, at most
    four). `tool_calls` is "constrained" to our own words and a grammar, or "native" to the
    model's template; None decides by the file: what is known here is constrained. `transport`
    takes the place of llama.cpp in this process. Replies to requests at the same time are written
    one after the other. Safe to share between tasks, threads and event loops.

    Raises:
        UnknownModel: no model has this name.
        ConfigError: `context` or `threads` is not positive.
    """

    model: str = ""
    _: KW_ONLY
    context: int = 8192
    threads: int | None = None
    tool_calls: ToolCalls | None = None
    settings: ModelSettings = DEFAULT_SETTINGS
    progress: ProgressReport | None = None
    transport: Transport | None = None
    profile: ModelProfile = field(init=False)
    _client: OpenAI = field(init=False)
    _loaded: list[Ready] = field(init=False)

    def __post_init__(self) -> None:
        for name, number in (("context", self.context), ("threads", self.threads)):
            if number is not None and number < 1:
                raise ConfigError(f"Local(model={self.model!r}): {name}={number} is not positive.")
        name, settings = _name(self.model), SETTINGS.merged(self.settings)
        profile = ModelProfile(
            provider="local",
            name=name,
            native_output=True,
            native_output_with_tools=True,
            vision=False,
            settings=settings,
            identity=f"local {self._file()} context={self.context} calls={self.tool_calls}",
        )
        client = OpenAI(
            name,
            api_key="",
            base_url="http://local/v1",
            settings=settings,
            vision=False,
            native_output=True,
            transport=self.transport or LlamaTransport(self._ready),
        )
        object.__setattr__(self, "profile", profile)
        object.__setattr__(self, "_client", client)
        object.__setattr__(self, "_loaded", [])

    def __repr__(self) -> str:
        return f"Local({self.profile.name!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer in one piece.

        Raises:
            ModelFilesError: the model's file is missing or cannot be loaded.
            MissingExtra: llama.cpp is not installed.
            ModelError: the request failed; its class says how.
        """
        async with aclosing(self.stream(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, ModelReply):
                    return delta
        raise BadReply("The local model gave no reply.", provider="local", model=self.profile.name)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta]:
        """Answer piece by piece; the last item is the whole reply.

        Raises:
            ModelFilesError: the model's file is missing or cannot be loaded.
            MissingExtra: llama.cpp is not installed.
            ModelError: the request failed; its class says how.
        """
        async with aclosing(self._client.stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    def _file(self) -> str:
        """Return the path of the model's file, "" where its name says which it is."""
        return str(_path(self.model or os.environ.get(PATH_VARIABLE, "")) or "")

    async def _ready(self) -> Ready:
        """Return the loaded model. When this is cancelled, a download ends and can go on later."""
        if self._loaded and self._loaded[0].llama.is_here:
            return self._loaded[0]
        ready = await in_thread(self._load)
        self._loaded[:] = [ready]
        return ready

    def _load(self, given_up: threading.Event) -> Ready:
        library()  # before half a gigabyte is fetched for nothing
        path = _path(self.model)
        if path:
            check_gguf(path, f"The model {self.model!r}")
        else:
            path = self._pulled(given_up)
        constrains = self.tool_calls == "constrained"
        if self.tool_calls is None:
            constrains = known_content(path) is not None
        threads = self.threads or usable_threads()
        return Ready(load(ModelFile(path.resolve(), self.context, threads)), constrains)

    def _pulled(self, given_up: threading.Event) -> Path:
        on_terminal = TerminalProgress()
        report = self.progress or on_terminal

        def heard(progress: Progress) -> None:
            if given_up.is_set():
                raise _GivenUp
            report(progress)

        try:
            return pull(self.model, heard)
        finally:
            on_terminal.close()


class _GivenUp(Exception):
    """Nobody waits for this download any more."""


def _name(model: str) -> str:
    """Return what a model is called in profiles and errors.

    Raises:
        UnknownModel: no model has this name.
    """
    path = _path(model or os.environ.get(PATH_VARIABLE, ""))
    return path.stem if path else known_model(model).name


def _path(model: str) -> Path | None:
    """Return the path that a model's name is, None when it is a name."""
    is_path = model.endswith(".gguf") or "/" in model or "\\" in model
    return Path(model).expanduser().absolute() if is_path else None
