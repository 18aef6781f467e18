"""Local: the model as an agent sees it, without the weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.providers.local.made_up import CONTENT, FakeServer, Heard, Library, piece
from treadle.errors import (
    ConfigError,
    ContextOverflow,
    IncompleteReply,
    MissingExtra,
    ModelFilesError,
    UnknownModel,
)
from treadle.messages import Message, Thread
from treadle.models.resolve import resolve_model
from treadle.ports.model import ModelReply, ModelRequest, ModelSettings, TextPiece, ToolSpec
from treadle.providers.local.llama import Llama
from treadle.providers.local.model import Local
from treadle.providers.local.transport import LlamaTransport, Ready

ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def local(server: FakeServer, **options: Any) -> Local:
    """Return a model with a stand-in for llama.cpp."""

    async def loaded() -> Ready:
        return Ready(Llama(server), constrains=True)

    return Local(transport=LlamaTransport(loaded), **options)


def request(**fields: Any) -> ModelRequest:
    """Return a question."""
    return ModelRequest(messages=Thread([Message.user("1+1?")]), **fields)


async def test_an_answer_streams_and_ends_in_a_reply() -> None:
    """Text comes in pieces, the whole of it last, with what it used."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    server = FakeServer(
        piece("It is "), piece("2."), piece(finish="stop"), {"choices": [], "usage": usage}
    )

    found = [delta async for delta in local(server).stream(request(system="Be brief."))]

    assert found[:2] == [TextPiece("It is "), TextPiece("2.")]
    reply = found[2]
    assert isinstance(reply, ModelReply)
    assert (reply.message.text, reply.finish_reason) == ("It is 2.", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 2)
    assert server.asked[0]["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_a_call_comes_out_as_a_tool_call() -> None:
    """`complete` gives it whole."""
    server = FakeServer(piece('{"name": "add", "arguments": {"a": 1}}'), piece(finish="stop"))

    reply = await local(server).complete(request(tools=(ADD,)))

    (call,) = reply.message.tool_calls
    assert (call.name, call.arguments, reply.finish_reason) == ("add", {"a": 1}, "tool_calls")
    assert reply.message.text == ""


async def test_it_says_what_is_likeliest_and_ends() -> None:
    """Temperature 0 and a limit are the defaults; a run's settings win."""
    server = FakeServer(piece("2"), piece(finish="stop"))
    model = local(server, settings=ModelSettings(max_output_tokens=50))

    await model.complete(request())
    await model.complete(request(settings=ModelSettings(temperature=0.7)))

    sent = [(asked["temperature"], asked["max_tokens"]) for asked in server.asked]
    assert sent == [(0.0, 50), (0.7, 50)]


async def test_a_prompt_beyond_the_window_is_an_overflow() -> None:
    """llama.cpp's refusal becomes the error that compaction knows."""
    refusal = {
        "code": 400,
        "type": "exceed_context_size_error",
        "message": "request (9020 tokens) exceeds the available context size (4096 tokens)",
    }

    with pytest.raises(ContextOverflow, match="9020 tokens") as caught:
        await local(FakeServer({"error": refusal})).complete(request())

    assert caught.value.provider == "local"
    assert caught.value.model == "qwen2.5-coder-0.5b"


def test_a_string_names_it() -> None:
    """`local:` is the default model, and names or paths follow the colon."""
    default, small, file = map(
        resolve_model, ("local:", "local:smollm2-135m", "local:/models/big.gguf")
    )

    assert isinstance(default, Local)
    assert isinstance(small, Local)
    assert isinstance(file, Local)
    names = [model.profile.name for model in (default, small, file)]
    assert names == ["qwen2.5-coder-0.5b", "smollm2-135m", "big"]
    assert repr(file) == "Local('big')"
    assert default.profile.provider == "local"
    assert default.profile.native_output
    assert not default.profile.vision


def test_an_unknown_name_is_refused_at_once() -> None:
    """The message lists the known ones."""
    with pytest.raises(UnknownModel, match=r"'gpt'.*qwen2\.5-coder-0\.5b"):
        resolve_model("local:gpt")


@pytest.mark.parametrize("options", [{"context": 0}, {"threads": -1}])
def test_a_number_that_is_none_is_refused(options: dict[str, Any]) -> None:
    """The message names the option and its value."""
    with pytest.raises(ConfigError, match=r"(context=0|threads=-1) is not positive"):
        Local(**options)


@pytest.mark.parametrize("content", [None, b"not a model"])
async def test_a_path_to_no_model_is_told(tmp_path: Path, content: bytes | None) -> None:
    """The message names what was asked for and the file."""
    path = tmp_path / "x.gguf"
    if content:
        path.write_bytes(content)

    with pytest.raises(ModelFilesError, match=r"The model '.*x\.gguf' names .*x\.gguf"):
        await Local(str(path)).complete(request())


async def test_without_llama_cpp_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is the command that helps."""
    path = tmp_path / "x.gguf"
    path.write_bytes(CONTENT)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)

    with pytest.raises(MissingExtra, match=r'pip install "treadle\[local\]"'):
        await Local(str(path)).complete(request())
    heard = Heard()
    with pytest.raises(MissingExtra, match="openai:"):  # and before anything is fetched
        await Local(progress=heard).complete(request())
    assert heard.all == []


async def test_weights_that_cannot_be_had_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request fails with what is wrong with the weights, and shows no progress before."""
    monkeypatch.setenv("TREADLE_LOCAL_MODEL", str(tmp_path / "gone.gguf"))
    heard = Heard()

    with pytest.raises(ModelFilesError, match="TREADLE_LOCAL_MODEL"):
        await Local(progress=heard).complete(request())

    assert heard.all == []


async def test_a_file_of_ones_own_is_left_to_its_template(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not known here gets its tools from llama.cpp, unless it is asked for otherwise."""
    path = tmp_path / "mine.gguf"
    path.write_bytes(CONTENT)
    monkeypatch.setenv("TREADLE_LOCAL_MODEL", str(path))
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    heard = Heard()

    native, forced = Local(progress=heard), Local(str(path), tool_calls="constrained")
    assert (await native.complete(request(tools=(ADD,)))).message.text == "Hi"
    assert (await native.complete(request(tools=(ADD,)))).message.text == "Hi"
    await forced.complete(request(tools=(ADD,)))

    assert ["grammar" in asked for asked in library.server.asked] == [False, False, True]
    assert native.profile.name == forced.profile.name == "mine"
    assert len(library.made) == 1
    assert heard.all == []


async def test_a_stream_without_a_reply_is_told() -> None:
    """A model that says nothing at all is an error, never an empty answer."""
    with pytest.raises(IncompleteReply, match="empty"):
        await local(FakeServer()).complete(request())
