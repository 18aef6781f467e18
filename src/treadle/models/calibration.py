"""What a provider counts, learnt from what it counted before."""

from __future__ import annotations

from collections import OrderedDict
from math import sqrt

from msgspec import Struct

from treadle.models.tokens import Sizes
from treadle.ports.model import ModelProfile
from treadle.usage import Usage

_KEPT = 256
"""So many models are remembered, those that were asked last."""
_SPREAD = (40.0, 0.15, 0.35, 0.35, 0.5)
"""How far a model may be from the estimate before anything is known of it: tokens that come with
every request, then shares of texts, tools, schemas of answers and media."""
_DRIFT = (2.0, 0.01, 0.01, 0.02, 0.05)
"""How much of that comes back with each reply, so that what is learnt follows what changes."""
_NOISE, _NOISE_SHARE, _NOISE_MEDIA = 2.0, 0.04, 0.25
"""How far a right estimate is from what is counted: tokens, a share of them, and one of media."""
_STRANGE = 4.0
"""So many times the expected difference is a single strange one, and counts for little."""
_SHARES = (0.3, 4.0)
_ABSURD_SHARE, _ABSURD = 8, 4_000
_Row = tuple[float, ...]


class _Learnt(Struct, frozen=True):
    """What comes with every request and the share of each kind, and how sure that is."""

    values: _Row = (0.0, 1.0, 1.0, 1.0, 1.0)
    spread: tuple[_Row, ...] = tuple(
        tuple(each * each if row == column else 0.0 for column in range(len(_SPREAD)))
        for row, each in enumerate(_SPREAD)
    )
    replies: int = 0
    strange: bool = False


class Calibration:
    """The estimates of one model, corrected by what its provider counted.

    A difference is put down to whatever is least certain: to media and tools before text, to what
    comes with every request where that is short, and to the share of texts where that is long. A
    single count that fits nothing changes little, a second one of its kind is believed.

    Example:
        >>> from treadle import Usage
        >>> calibration = Calibration()
        >>> calibration.scale(Sizes(history=1_000))
        1000
        >>> calibration.learn(Sizes(history=1_000), Usage(input_tokens=1_250))
        >>> 2_400 < calibration.scale(Sizes(history=2_000)) < 2_500
        True
    """

    __slots__ = ("_learnt",)

    def __init__(self) -> None:
        self._learnt = _Learnt()

    @property
    def replies(self) -> int:
        """How many counts were learnt from."""
        return self._learnt.replies

    def scale(self, sizes: Sizes) -> int:
        """Return about how many tokens the provider will count for a request of these sizes."""
        if not sizes.total:
            return 0
        return max(1, round(_dot(self._learnt.values, _inputs(sizes))))

    def learn(self, sizes: Sizes, usage: Usage) -> None:
        """Take in what the provider counted for a request of these sizes.

        A count of nothing, or one far from any estimate, says nothing and is left alone.
        """
        counted, expected = usage.input_tokens, sizes.total
        if not 0 < counted <= expected * _ABSURD_SHARE + _ABSURD or not expected:
            return
        if counted * _ABSURD_SHARE + _ABSURD < expected:
            return
        self._learnt = _after(self._learnt, _inputs(sizes), float(counted))


def calibration_of(profile: ModelProfile) -> Calibration:
    """Return what this process has learnt of a model; the same object for the same model."""
    key = (profile.provider, profile.name, profile.identity)
    known = _known.get(key)
    if known is None:
        known = _known.setdefault(key, Calibration())
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    else:
        _touch(key)
    return known


_known: OrderedDict[tuple[str, str, str], Calibration] = OrderedDict()


def _touch(key: tuple[str, str, str]) -> None:
    try:
        _known.move_to_end(key)
    except KeyError:  # another thread has just dropped it
        return


def _inputs(sizes: Sizes) -> _Row:
    texts = float(sizes.instructions + sizes.history)
    return (1.0, texts, float(sizes.tools), float(sizes.output), float(sizes.media))


def _after(learnt: _Learnt, inputs: _Row, counted: float) -> _Learnt:
    """Return what is known after one more count: a Kalman filter's step."""
    spread, values = learnt.spread, learnt.values
    error = counted - _dot(values, inputs)
    noise = (_NOISE + _NOISE_SHARE * counted + _NOISE_MEDIA * inputs[-1]) ** 2
    along = tuple(_dot(row, inputs) for row in spread)
    expected = _dot(along, inputs) + noise
    strange = abs(error) > _STRANGE * sqrt(expected)
    if (strange and not learnt.replies) or (strange and learnt.strange):
        spread = _widened(spread, inputs, error)
        along = tuple(_dot(row, inputs) for row in spread)
        expected = _dot(along, inputs) + noise
        strange = False
    elif strange:
        expected = (error / 0.5) ** 2
    gain = tuple(each / expected for each in along)
    spread = tuple(
        tuple(
            value - gain[row] * along[column] + (_DRIFT[row] ** 2 if row == column else 0.0)
            for column, value in enumerate(line)
        )
        for row, line in enumerate(spread)
    )
    moved = [value + each * error for value, each in zip(values, gain, strict=True)]
    shares = [min(max(value, _SHARES[0]), _SHARES[1]) for value in moved[1:]]
    return _Learnt((moved[0], *shares), spread, learnt.replies + 1, strange)


def _widened(spread: tuple[_Row, ...], inputs: _Row, error: float) -> tuple[_Row, ...]:
    """Return a spread in which media may be what is wrong, else all that is not text."""
    blamed = (4,) if inputs[4] else (0, 2, 3)
    return tuple(
        tuple(
            value + (error / inputs[row]) ** 2
            if row == column and row in blamed and inputs[row]
            else value
            for column, value in enumerate(line)
        )
        for row, line in enumerate(spread)
    )


def _dot(one: _Row, other: _Row) -> float:
    return sum([a * b for a, b in zip(one, other, strict=True)])
