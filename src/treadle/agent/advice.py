"""Tell a model something beside the results of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from treadle.agent.calls import Answers
from treadle.agent.recorder import Recorder
from treadle.journal import About, AnyEntry
from treadle.messages import Thread
from treadle.open_calls import advised


class Told(Protocol):
    """The work whose model is told."""

    answers: Answers | None
    thread: Thread
    recorder: Recorder | None


def tell(work: Told, texts: tuple[str, ...], about: About = "") -> Sequence[AnyEntry]:
    """Tell the model something after the results of its calls, or now if there are none.

    Return what the journal has to be told of it.
    """
    if not texts:
        return ()
    if work.answers is not None:
        work.answers.advice.append(("", texts))
    else:
        work.thread.extend(advised((), [("", texts)]))
    return () if work.recorder is None else work.recorder.advice(texts, about=about)


def hint(work: Told, text: str, about: About = "") -> None:
    """Tell the model something of the loop's own, written with whatever is written next.

    A process that dies before that says it again: it follows from the history.
    """
    for entry in tell(work, (text,), about):
        if work.recorder is not None:
            work.recorder.hold(entry)
