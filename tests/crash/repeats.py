"""Was anything done again that was done? What processes told, against what the journal knew then.

A line of what they told is one of these: "process 12" when one begins, which finds the journal at
revision 12; "asked MARK" for a request to a model; "call ID TOOL KEY" when a call takes effect, and
"step KEY ATTEMPT" when a function does that is a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from treadle.journal import CallEnded, ChildEnded, ModelReplied, StepEnded
from treadle.ports.store import Batch


class Known(Struct):
    """Since which revision the journal knows that something is over.

    `over` has paths of steps and of child runs, `ended` calls by ID, `replied` requests by mark,
    `failed` the labels of steps that failed.
    """

    over: dict[str, int] = field(default_factory=dict[str, int])
    ended: dict[str, int] = field(default_factory=dict[str, int])
    replied: dict[str, int] = field(default_factory=dict[str, int])
    failed: dict[str, int] = field(default_factory=dict[str, int])
    synthetic: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> Known:
        """Return what a journal knows."""
        known = cls()
        for batch in batches:
            for entry in batch.entries:
                if isinstance(entry, StepEnded):
                    path = f"{entry.path}/{entry.step}" if entry.path else entry.step
                    known.over.setdefault(path, batch.revision)
                    if not entry.ok:
                        label = entry.step.rpartition("#")[0]
                        known.failed.setdefault(label, batch.revision)
                elif isinstance(entry, ChildEnded):
                    known.over.setdefault(entry.path, batch.revision)
                elif isinstance(entry, CallEnded):
                    known.ended.setdefault(entry.result.call_id, batch.revision)
                    if entry.result.synthetic:
                        known.synthetic.add(entry.result.call_id)
                elif isinstance(entry, ModelReplied):
                    known.replied.setdefault(entry.model, batch.revision)
        return known

    def since(self, path: str) -> int | None:
        """Return since when a path, or one that it is in, is over."""
        parts = path.split("/")
        paths = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        found = [self.over[each] for each in paths if each in self.over]
        return min(found) if found else None


def processes_of(lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Return for each process the revision that it found, and what it told."""
    found: list[tuple[int, list[str]]] = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "process":
            found.append((int(rest), []))
        else:
            found[-1][1].append(line)
    return found


def repeated(
    lines: Sequence[str], known: Known, run_id: str, certain: frozenset[str]
) -> Iterator[str]:
    """Say what was done again after it was done, and what was done that nobody knows of.

    Calls of tools that are `certain` may take effect again when nothing is known of their end.
    """
    processes = processes_of(lines)
    for number, (revision, told) in enumerate(processes, 1):
        for line, times in Counter(told).items():
            if times > 1:
                yield f"process {number} did {times} times: {line}"
            done = _done_at(line, known, run_id)
            if done is not None and done <= revision:
                yield f"process {number} found revision {revision} and did again: {line} ({done})"
    effects = Counter(line for _, told in processes for line in told)
    for line, times in effects.items():
        kind, what, *more = line.split(" ")
        if kind == "call" and times > 1 and more[0] not in certain:
            yield f"{times} times: {line}"
        yield from _unknown(kind, what, more, known, run_id)


def _unknown(kind: str, what: str, more: list[str], known: Known, run_id: str) -> Iterator[str]:
    """Say what is wrong with an effect by itself."""
    if kind == "asked" and what not in known.replied and what.split(":")[0] not in known.failed:
        yield f"asked, and no reply is known: {what}"
    elif kind == "call":
        if what not in known.ended:
            yield f"took effect, and no result is known: {what}"
        if more[1] != f"{run_id}:{what}":
            yield f"call {what} took effect as {more[1]}"
    elif kind == "step" and what.removeprefix(f"{run_id}:") not in known.over:
        yield f"took effect, and no end is known: {what}"


def _done_at(line: str, known: Known, run_id: str) -> int | None:
    """Return since when the journal knows that this is done."""
    kind, what, *_ = line.split(" ")
    if kind == "asked":
        replied = known.replied.get(what)
        return known.failed.get(what.split(":")[0]) if replied is None else replied
    if kind == "step":
        return known.since(what.removeprefix(f"{run_id}:"))
    path, _, _ = what.rpartition(":")
    found = [at for at in (known.ended.get(what), known.since(path)) if at is not None]
    return min(found) if found else None


def left_out(lines: Sequence[str], meant: Sequence[str], known: Known) -> Iterator[str]:
    """Say what was never done, though it is where nothing happens; or only here."""
    done, wanted = (({_what(each) for each in of} - {""}) for of in (lines, meant))
    for each in sorted(done - wanted):
        yield f"done here only: {each}"
    for each in sorted(wanted - done):
        if each.removeprefix("call ") not in known.synthetic:
            yield f"never done: {each}"


def _what(line: str) -> str:
    """Return what was done, in words that are the same in each run."""
    kind, what, *_ = line.split(" ")
    if kind == "process":
        return ""
    if kind == "asked":
        return f"asked {what.rpartition(':')[0]}"
    return f"{kind} {what.partition(':')[2]}" if kind == "step" else f"{kind} {what}"
