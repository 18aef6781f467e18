"""`python -m benchmarks.tokens`: how far token estimates are from what providers counted.

Every recorded exchange is estimated from its request alone, then again after its model's estimates
were corrected by one other exchange with it: each in turn is that one, and what is told of the
exchange is the median over them. It fails when a protocol's median is above the target.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from tools import recorded_anthropic, recorded_chat, recorded_gemini, recorded_responses
from tools.recording import Recording, folder, load
from treadle.errors import ModelError
from treadle.messages import Hosted
from treadle.models.calibration import Calibration
from treadle.models.tokens import Sizes, sizes_of
from treadle.ports.model import ModelProfile, ModelReply, ModelRequest, ToolSpec
from treadle.usage import Usage

TARGET = 0.10
_PROTOCOLS: Mapping[str, Callable[[Recording], tuple[ModelRequest, ModelReply]]] = {
    "openai_chat": recorded_chat.exchange,
    "openai_responses": recorded_responses.exchange,
    "anthropic": recorded_anthropic.exchange,
    "gemini": recorded_gemini.exchange,
}
_VENDORS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "google",
}
_ELSEWHERE = frozenset(
    {
        *("previous_response_id", "conversation", "cachedContent", "container", "mcp_servers"),
        *("web_search_options", "search_settings", "context_management"),
    }
)
"""Fields of a request that name what only the provider has, or change what it counts."""


class Exchange(Struct, frozen=True):
    """One recorded request with what the provider counted; `own` says that some of it is its own:
    tools that it runs, or history that it keeps.
    """

    id: str
    profile: ModelProfile
    sizes: Sizes
    usage: Usage
    own: bool

    def error(self, estimate: int) -> float:
        """Return how far an estimate is off, as a share of what was counted."""
        return abs(estimate / self.usage.input_tokens - 1)


class Judged(Struct, frozen=True):
    """The errors of a protocol's exchanges, before and after one correction."""

    protocol: str
    own: bool
    raw: Sequence[float]
    corrected: Sequence[float]


def exchanges(protocol: str) -> list[Exchange]:
    """Return all exchanges of a protocol in which the provider counted tokens."""
    found: list[Exchange] = []
    for recording in load(protocol):
        if recording.status >= 300 or not recording.request:
            continue
        try:
            request, reply = _PROTOCOLS[protocol](recording)
        except ModelError:  # a reply that is an error
            continue
        if reply.usage.input_tokens:
            profile = _profile(recording, request)
            sizes = sizes_of(request, profile)
            found.append(Exchange(recording.id, profile, sizes, reply.usage, _is_own(request)))
    return found


def judge(protocol: str, *, own: bool) -> Judged:
    """Judge the exchanges with, or without, what only the provider has."""
    models: dict[tuple[str, str, str], list[Exchange]] = defaultdict(list)
    for each in exchanges(protocol):
        if each.own is own:
            models[each.profile.provider, each.profile.name, each.profile.identity].append(each)
    raw = [each.error(each.sizes.total) for those in models.values() for each in those]
    return Judged(protocol, own, raw, [e for those in models.values() for e in _corrected(those)])


def middle(errors: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(errors)


def nearly_worst(errors: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return sorted(errors)[min(len(errors) - 1, int(0.95 * len(errors)))]


def _corrected(those: Sequence[Exchange]) -> list[float]:
    """Return each one's error after one other exchange with its model."""
    learnt: list[Calibration] = []
    for each in those:
        calibration = Calibration()
        calibration.learn(each.sizes, each.usage)
        learnt.append(calibration)
    return [
        middle([each.error(one.scale(each.sizes)) for one in learnt if one is not learnt[index]])
        for index, each in enumerate(those)
        if len(those) > 1
    ]


def _profile(recording: Recording, request: ModelRequest) -> ModelProfile:
    """Return what tells the model from others: as with us, also the tools that the server runs."""
    host = recording.host
    vendor = "vertex" if "aiplatform" in host else _VENDORS.get(host, host)
    name = str(recording.request.get("model") or "")
    name = name or recording.path.rpartition("/")[2].partition(":")[0]
    hosted = ",".join(tool.name for tool in request.tools if _is_hosted(tool))
    return ModelProfile(provider=vendor, name=name, identity=hosted)


def _is_hosted(tool: ToolSpec) -> bool:
    return type(tool) is not ToolSpec and not tool.parameters


def _is_own(request: ModelRequest) -> bool:
    if any(map(_is_hosted, request.tools)) or _ELSEWHERE & set(request.settings.extra_body or {}):
        return True
    parts = (part for message in request.messages for part in message.parts)
    return any(isinstance(part, Hosted) for part in parts)


def main() -> int:
    """Print the table; return the exit code."""
    if not load("openai_chat"):
        print(f"no recordings in {folder()}; name their folder in TREADLE_RECORDINGS")
        return 2
    print("error of estimates, as a share of the tokens that the provider counted")
    print(f"{'':46}{'at first':>25}{'after one reply':>27}")
    print(f"{'':46}{'n':>7}{'median':>9}{'95 %':>9}{'n':>9}{'median':>9}{'95 %':>9}")
    missed: list[str] = []
    for protocol in _PROTOCOLS:
        for own in (False, True):
            judged = judge(protocol, own=own)
            what = "its own tools or history" if own else "all that is counted is sent"
            print(f"{protocol:18}{what:28}{_figures(judged.raw)}  {_figures(judged.corrected)}")
            if not own and middle(judged.corrected) > TARGET:
                missed.append(protocol)
    print(f"\ntarget: median after one reply <= {TARGET:.0%} where all that is counted is sent")
    print(f"missed: {', '.join(missed)}" if missed else "met in every protocol")
    return 1 if missed else 0


def _figures(errors: Sequence[float]) -> str:
    if not errors:
        return f"{0:>7}{'-':>9}{'-':>9}"
    return f"{len(errors):>7}{middle(errors):>9.1%}{nearly_worst(errors):>9.0%}"


if __name__ == "__main__":
    sys.exit(main())
