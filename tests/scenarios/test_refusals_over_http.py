"""Refusals and filters, in each form that servers give them, are one outcome."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import Struct

from tests.scenarios.provider import ask, both_ways, patient, provider, saying
from tests.servers import Answer, whole
from treadle import Agent, ContentFiltered, MemoryStore
from treadle.journal import RunEnded


class Verdict(Struct):
    """A typed output."""

    guilty: bool


def azure(streamed: bool) -> Answer:
    """A filter that answers 400."""
    error = {"message": "The response was filtered.", "code": "content_filter", "status": 400}
    return whole({"error": error}, 400)


def refusal(streamed: bool) -> Answer:
    """No content, and a refusal beside it."""
    return saying(None, streamed=streamed, refusal="No.")


def filtered(streamed: bool) -> Answer:
    """No content, and the reason."""
    return saying(None, streamed=streamed, finish="content_filter")


def cut_short(streamed: bool) -> Answer:
    """Some content, which would even be valid, and the reason."""
    return saying('{"guilty": true}', streamed=streamed, finish="content_filter")


FORMS = {
    "a: refusal": (refusal, "No."),
    "b: nothing": (filtered, ""),
    "c: status 400": (azure, ""),
    "d: text": (cut_short, '{"guilty": true}'),
}


@both_ways
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("form", "text"), FORMS.values(), ids=FORMS)
async def test_every_form_is_one_outcome(
    form: Callable[[bool], Answer], text: str, native: bool, streamed: bool
) -> None:
    """BS-27: one request each, never parsed as an output, and the next run goes on."""
    retry, clock = patient()
    good = ("f", "final_result", '{"guilty": false}')
    last = saying(None if not native else good[2], *(() if native else [good]), streamed=streamed)
    store = MemoryStore()
    async with provider(form(streamed), last, native_output=native, merge_roles=True) as line:
        agent = Agent("judge", line.model, output_type=Verdict, retry=retry, store=store)
        with pytest.raises(ContentFiltered) as caught:
            await ask(agent, "x", streamed=streamed, conversation="c")
        asked = len(line.requests)
        result = await ask(agent, "y", streamed=streamed, conversation="c")

    error = caught.value
    assert (asked, len(line.requests), clock.sleeps) == (1, 2, [])
    assert (error.partial, error.retryable, error.result.stop_reason) == (text, False, "failed")
    assert not [m for m in error.result.messages if m.role == "assistant" and not m.incomplete]
    assert result.output == Verdict(guilty=False)
    entries = [entry for batch in await store.read("c") for entry in batch.entries]
    ends = [entry.stop_reason for entry in entries if isinstance(entry, RunEnded)]
    assert ends == ["failed", "answer"]


@both_ways
async def test_the_error_says_who_refused(streamed: bool) -> None:
    """BS-27: with the words, the provider, the model and its own code."""
    async with provider(refusal(streamed)) as line:
        with pytest.raises(ContentFiltered, match="No\\.") as caught:
            await ask(Agent("a", line.model), "x", streamed=streamed)

    assert (caught.value.provider, caught.value.model) == (
        line.model.profile.provider,
        "m-1" if not streamed else "m",
    )
