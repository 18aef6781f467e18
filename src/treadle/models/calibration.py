"""What a provider counts, learnt from what it counted before."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil, sqrt

from msgspec import Struct

from treadle.models.tokens import Sizes
from treadle.ports.model import ModelProfile
from treadle.usage import Usage

_KEPT = 256
"""So many models are remembered, those that were asked last."""
_SPREAD = (10.0, 0.15, 40.0, 0.2, 0.35, 0.6)
"""How far a model may be from the estimate before anything is known of it: tokens that come with
every request, a share of texts, tokens that come with tools, shares of tools, of schemas of answers
and of media."""
_DRIFT = (1.0, 0.01, 2.0, 0.01, 0.02, 0.05)
"""How much of that comes back with each reply, so that what is learnt follows what changes."""
_NOISE, _NOISE_SHARE, _NOISE_MEDIA = 2.0, 0.04, 0.25
"""How far a right estimate is from what is counted: tokens, a share of them, and one of media."""
_STRANGE = 4.0
"""So many times the expected difference is a single strange one, and counts for little."""
_TOOLED, _OUTPUT, _MEDIA = 2, 4, 5
_OF_SHARES = (1, 3, _OUTPUT, _MEDIA)
_SHARES = (0.3, 4.0)
"""Which of these are shares, and between what they stay."""
_ABSURD_SHARE, _ABSURD = 8, 4_000
"""A count so many times the estimate, and so many tokens above it, tells nothing."""
_Row = tuple[float, ...]
_Rows = tuple[_Row, ...]


class _Learnt(Struct, frozen=True):
    """What comes with every request and the share of each kind, and how sure that is."""

    values: _Row = (0.0, 1.0, 0.0, 1.0, 1.0, 1.0)
    spread: _Rows = tuple(
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
        least = ceil(_SHARES[0] * sizes.total)  # whatever was counted of requests that were short
        return max(least, round(_dot(self._learnt.values, _inputs(sizes))))

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
    tools = float(sizes.tools)
    return (1.0, texts, float(tools > 0), tools, float(sizes.output), float(sizes.media))


def _after(learnt: _Learnt, inputs: _Row, counted: float) -> _Learnt:
    """Return what is known after one more count: one step of a Kalman filter."""
    spread = learnt.spread
    error = counted - _dot(learnt.values, inputs)
    noise = (_NOISE + _NOISE_SHARE * counted + _NOISE_MEDIA * inputs[_MEDIA]) ** 2
    strange = abs(error) > _STRANGE * sqrt(_variance(spread, inputs) + noise)
    if strange and (learnt.strange or not learnt.replies):  # there is nothing better to go by
        strange, spread = False, _widened(spread, inputs, error)
    expected = (2 * error) ** 2 if strange else _variance(spread, inputs) + noise
    along = [_dot(row, inputs) for row in spread]
    gain = [each / expected for each in along]
    values = [value + each * error for value, each in zip(learnt.values, gain, strict=True)]
    for index in _OF_SHARES:
        values[index] = min(max(values[index], _SHARES[0]), _SHARES[1])
    narrowed = tuple(
        tuple(
            value - gain[row] * along[column] + (_DRIFT[row] ** 2 if row == column else 0.0)
            for column, value in enumerate(line)
        )
        for row, line in enumerate(spread)
    )
    return _Learnt(tuple(values), narrowed, learnt.replies + 1, strange)


def _widened(spread: _Rows, inputs: _Row, error: float) -> _Rows:
    """Return a spread in which all of an error may be due to media, else to what is no text."""
    blamed = (_MEDIA,) if inputs[_MEDIA] else (_TOOLED,) if inputs[_TOOLED] else (0, _OUTPUT)
    rows = [list(row) for row in spread]
    for index in blamed:
        if inputs[index]:
            rows[index][index] += (error / inputs[index]) ** 2
    return tuple(map(tuple, rows))


def _variance(spread: _Rows, inputs: _Row) -> float:
    return sum([_dot(row, inputs) * each for row, each in zip(spread, inputs, strict=True)])


def _dot(one: _Row, other: _Row) -> float:
    return sum([a * b for a, b in zip(one, other, strict=True)])
