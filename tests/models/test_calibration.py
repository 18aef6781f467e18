"""How estimates follow what a provider counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import Usage
from treadle.models.calibration import Calibration, calibration_of
from treadle.models.tokens import Sizes
from treadle.ports.model import ModelProfile

LONG = Sizes(instructions=200, tools=500, history=8_000)
counts = st.integers(0, 200_000)
all_sizes = st.builds(Sizes, counts, counts, counts, counts, counts)


def counted(tokens: int) -> Usage:
    """What a provider reports of the input."""
    return Usage(input_tokens=tokens, cache_read_tokens=tokens // 2, output_tokens=9)


def off(calibration: Calibration, sizes: Sizes, tokens: int) -> float:
    """How far the estimate is from so many tokens, as a share of them."""
    return abs(calibration.scale(sizes) / tokens - 1)


@given(all_sizes)
def test_before_the_first_reply_the_estimate_stands(sizes: Sizes) -> None:
    """There is nothing to correct it by."""
    assert Calibration().scale(sizes) == sizes.total


@pytest.mark.parametrize("share", [0.7, 0.85, 1.0, 1.2, 1.35])
def test_one_reply_tells_how_long_texts_come_out(share: float) -> None:
    """A tokenizer of another kind is a constant factor away."""
    calibration = Calibration()
    calibration.learn(LONG, counted(round(LONG.total * share)))
    later = Sizes(instructions=200, tools=500, history=40_000)
    assert off(calibration, later, round(later.total * share)) < 0.1


def test_one_short_reply_tells_what_comes_with_every_request() -> None:
    """Sixty tokens beside ten are no factor of seven."""
    calibration = Calibration()
    calibration.learn(Sizes(history=10), counted(70))
    assert off(calibration, Sizes(history=10), 70) < 0.1
    assert off(calibration, Sizes(history=5_000), 5_060) < 0.1


def test_one_reply_tells_what_comes_with_tools() -> None:
    """Hidden instructions for them are not there where there are no tools."""
    calibration = Calibration()
    calibration.learn(Sizes(tools=60, history=20), counted(710))
    assert off(calibration, Sizes(tools=60, history=300), 990) < 0.1
    assert off(calibration, Sizes(history=300), 300) < 0.1


@pytest.mark.parametrize("before", [0, 3])
def test_media_do_not_spoil_what_is_known_of_texts(before: int) -> None:
    """A document that has ten times what was thought says little of texts."""
    calibration = Calibration()
    for _ in range(before):
        calibration.learn(LONG, counted(round(LONG.total * 1.2)))
    calibration.learn(Sizes(history=500, media=1_500), counted(15_500))
    share = 1.2 if before else 1.0
    assert off(calibration, LONG, round(LONG.total * share)) < 0.1


def test_one_strange_count_changes_little_and_a_second_is_believed() -> None:
    """What a search found was in it, once; then the server has got new instructions."""
    calibration = Calibration()
    for _ in range(5):
        calibration.learn(Sizes(history=1_000), counted(1_000))
    calibration.learn(Sizes(history=1_000), counted(9_000))
    assert off(calibration, Sizes(history=1_000), 1_000) < 0.35
    calibration.learn(Sizes(history=1_000), counted(9_000))
    assert off(calibration, Sizes(history=1_000), 9_000) < 0.1


def test_what_changes_is_followed() -> None:
    """After fifty replies another tokenizer is learnt within a few."""
    calibration = Calibration()
    for _ in range(50):
        calibration.learn(LONG, counted(LONG.total))
    for _ in range(8):
        calibration.learn(LONG, counted(round(LONG.total * 1.3)))
    assert off(calibration, LONG, round(LONG.total * 1.3)) < 0.1


@pytest.mark.parametrize("tokens", [0, -5, 10**9, 1])
def test_a_wrong_count_is_left_alone(tokens: int) -> None:
    """Nothing, less than nothing, or what no request of this size can have."""
    calibration = Calibration()
    calibration.learn(Sizes(history=50_000), counted(tokens))
    calibration.learn(Sizes(), counted(100))
    assert calibration.replies == 0
    assert calibration.scale(Sizes(history=50_000)) == 50_000


@given(st.lists(st.tuples(all_sizes, st.integers(-10, 10**7)), max_size=20), all_sizes)
def test_whatever_was_counted_estimates_stay_sane(
    replies: list[tuple[Sizes, int]], sizes: Sizes
) -> None:
    """Never negative, none of nothing, and more is never fewer."""
    calibration = Calibration()
    for given_sizes, tokens in replies:
        calibration.learn(given_sizes, Usage(input_tokens=tokens))
    estimate = calibration.scale(sizes)
    more = Sizes(sizes.instructions, sizes.tools, sizes.output, sizes.history + 100, sizes.media)
    assert calibration.scale(Sizes()) == 0
    assert calibration.scale(more) >= estimate >= (1 if sizes.total else 0)


def test_models_are_kept_apart_and_not_for_ever() -> None:
    """By provider, name and what else makes them answer otherwise."""
    one = ModelProfile(provider="test", name="kept-apart")
    assert calibration_of(one) is calibration_of(ModelProfile(provider="test", name="kept-apart"))
    assert calibration_of(one) is not calibration_of(ModelProfile(name="kept-apart"))
    first = calibration_of(one)
    for number in range(300):
        calibration_of(ModelProfile(provider="test", name=f"kept-apart-{number}"))
    assert calibration_of(one) is not first


def test_threads_may_share_one() -> None:
    """Nothing is lost but perhaps a count."""
    profile = ModelProfile(provider="test", name="of-many-threads")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(lambda: calibration_of(profile).learn(LONG, counted(10_000)))
    assert off(calibration_of(profile), LONG, 10_000) < 0.05


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_counts_that_cannot_be_never_make_a_request_small(tokens: int) -> None:
    """Some servers count next to nothing: what is asked for later is still looked at."""
    calibration = Calibration()
    for _ in range(40):
        calibration.learn(Sizes(instructions=50, history=2_000), Usage(input_tokens=tokens))
    assert calibration.scale(Sizes(instructions=50, history=100_000)) > 30_000
