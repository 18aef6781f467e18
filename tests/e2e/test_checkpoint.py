"""A checkpoint by the real local model: small as it is, nothing exact is lost."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.compaction.asking import call, gone_of, result
from treadle.compaction.checkpoint import Checkpoint
from treadle.messages import Message
from treadle.ports.model import ModelReply, ModelRequest, ModelSettings
from treadle.providers.local.model import Local
from treadle.providers.local.weights import pull

pytestmark = pytest.mark.e2e

HISTORY = [
    Message.user("Find out why order ORD-7731 is late. It must ship before 2026-03-14."),
    call("read_log", 1, path="/srv/shop/orders.log"),
    result(1, "10:15 ORD-7731 waits for part PX-200, 42 km away.", "read_log"),
    Message.assistant("It waits for part PX-200."),
]


@pytest.fixture(scope="module")
def model() -> Local:
    """The default model; its weights are fetched where they are missing."""
    pull()
    return Local()


async def test_a_checkpoint_comes_out(model: Local) -> None:
    """The model writes JSON, or is asked again; the references are there in any case."""
    asked = 0

    async def ask(request: ModelRequest) -> ModelReply:
        nonlocal asked
        asked += 1
        brief = ModelSettings(max_output_tokens=160, seed=1)  # it is slow, and copies what it reads
        return await model.complete(replace(request, settings=brief))

    note = await Checkpoint().note(gone_of(HISTORY, tokens=600, window=4_000), ask)

    told = json.loads(note)
    assert asked in (1, 2)
    assert told["records"] == 4
    assert any(name not in ("records", "references", "references_in_results") for name in told)
    for value in ("ORD-7731", "2026-03-14", "/srv/shop/orders.log", "PX-200", "42 km", "10:15"):
        assert f'"{value}"' in note
