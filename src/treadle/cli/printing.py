"""What happens in a run, as text on a terminal."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any, TextIO

from treadle.cli.terminal import Terminal, cut, visible
from treadle.errors import NotStorable, TreadleError
from treadle.events import (
    AgentEntered,
    AgentLeft,
    AnyEvent,
    ApprovalDecided,
    ApprovalRequested,
    HandedOff,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    NodeFinished,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolRequested,
    ToolStarted,
)
from treadle.usage import Usage
from treadle.values import json_text

MOST_LINES = 6  # of a tool's result
MOST_ASKED = 60  # lines of one argument, when somebody is asked about it
VERDICTS = {"approve": "approved", "edit": "approved with other arguments", "deny": "denied"}


class EventPrinter:
    """Prints events as they come: the model's text on one stream, all else on another.

    `answer` is the text of the newest model reply. Text that goes to a terminal shows its control
    characters; elsewhere it is passed on as it is.
    """

    def __init__(self, terminal: Terminal, *, notes: TextIO) -> None:
        self.answer = ""
        self._terminal = terminal
        self._text = terminal.stdout
        self._notes = notes
        self._paint = terminal.paint(notes)
        self._dims = terminal.paint(terminal.stdout)
        self._open = ""
        self._final = False
        self._steps: set[str] = set()

    def show(self, event: AnyEvent) -> None:
        """Print one event, if it is one to see."""
        if event.path:
            self._show_within(event)
            if not self._answers(event):
                return
        match event:
            case ModelStarted():
                self.answer = ""
                self._final = False
            case ModelFinished(final=final):
                self._final = final
            case TextDelta(text=text):
                self.answer += text
                self._write("text", text)
            case ReasoningDelta(text=text):
                if self._dims.on:
                    self._write("reasoning", text)
            case ModelRetried(error=error, seconds=seconds):
                self._aside(f"[{error} Asking again in {seconds:.1f} s.]")
            case _ if not event.path:
                self._show_call(event)
            case _:
                pass

    def _answers(self, event: AnyEvent) -> bool:
        """Whether the agent of an event is the one step of a flow at work: it may be the answer."""
        if isinstance(event, AgentEntered) and not event.call_id:
            self._steps.add(event.path)
        elif isinstance(event, AgentLeft):
            self._steps.discard(event.path)
        return self._steps == {event.path}

    def _show_within(self, event: AnyEvent) -> None:
        """Print what a child run does, but not what it says: its answer is the result of a call."""
        match event:
            case AgentEntered():
                told = f"works on: {event.input}" if event.input else "goes on"
            case HandedOff(source=source, target=target):
                told = f"{source} hands over to {target}"
            case NodeFinished(node=node, error=str(error)):
                told = f"{node} failed: {error}"
            case AgentLeft():
                told = f"is done ({event.stop_reason})"
            case ToolRequested(name=name, arguments=arguments):
                told = f"-> {call_in_brief(name, arguments)}"
            case ToolFinished(name=name, error=str(error)):
                told = f"{name} failed: {error}"
            case ApprovalRequested(name=name, reason=reason):
                told = f"{name} waits for a decision{f': {reason}' if reason else ''}"
            case ApprovalDecided(name=name, verdict=verdict):
                told = f"{name}: {VERDICTS.get(verdict, verdict)}"
            case _:
                return
        self._aside(f"   {event.path} {told}")

    def _show_call(self, event: AnyEvent) -> None:
        match event:
            case ToolRequested(name=name, arguments=arguments):
                self.call(name, arguments)
            case ToolStarted(name=name, attempt=attempt) if attempt > 1:
                self._aside(f"   {name}: attempt {attempt}")
            case ToolProgress(name=name, progress=progress):
                self._aside(f"   {name}: {as_text(progress)}")
            case ToolFinished(output=output, error=error, name=name):
                self.result(name, output, failed=error is not None)
            case ApprovalRequested(name=name, reason=reason):
                self._aside(f"   {name} waits for a decision{f': {reason}' if reason else ''}")
            case ApprovalDecided(name=name, verdict=verdict):
                self._aside(f"   {name}: {VERDICTS.get(verdict, verdict)}")
            case _:
                pass

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Print what a model asks for."""
        self.note(self._paint.cyan(f"-> {self._fit(call_in_brief(name, arguments), 3)}"))

    def result(self, name: str, output: str, *, failed: bool) -> None:
        """Print the first lines of what a call gave."""
        lines = visible(output).rstrip("\n").split("\n")
        shown = [self._fit(line, 3) for line in lines[:MOST_LINES]]
        if len(lines) > MOST_LINES:
            shown.append(f"... {len(lines) - MOST_LINES} more lines")
        text = "\n".join(f"{'   ' if place else '<- '}{line}" for place, line in enumerate(shown))
        self.note(self._paint.red(f"{text}  [{name} failed]") if failed else self._paint.dim(text))

    def _aside(self, text: str) -> None:
        self.note(self._paint.dim(self._fit(in_one_line(text), 0)))

    def note(self, text: str) -> None:
        """Print a line of its own beside the model's text."""
        self.end_line()
        print(text, file=self._notes, flush=True)

    def finish(self, output: object) -> None:
        """Print the output, unless it has been printed as it came, and end the line."""
        text = as_text(output)
        typed_text = self._final and bool(self.answer) and not isinstance(output, str)
        if text != self.answer and not typed_text:
            self.end_line()
            self._write("text", text)
        self.end_line()

    def end_line(self) -> None:
        """End the line that the model's text stands in, if it does not end by itself."""
        if self._open:
            self._open = ""
            self._text.write("\n")
        self._text.flush()

    def _write(self, kind: str, text: str) -> None:
        if self._open not in ("", kind):
            self.end_line()
        shown = visible(text) if self._text.isatty() else text
        self._text.write(self._dims.dim(shown) if kind == "reasoning" else shown)
        self._text.flush()
        if text:
            self._open = "" if text.endswith("\n") else kind

    def _fit(self, text: str, indent: int) -> str:
        return cut(text, self._terminal.width - indent - 1)


def complain(error: TreadleError, terminal: Terminal, *, debug: bool) -> None:
    """Print an error in one line on stderr, with its traceback when debugging."""
    if debug:
        traceback.print_exception(error, file=terminal.stderr)
    text = " ".join(str(error).split()) or type(error).__name__
    line = f"treadle: {visible(text)}"
    print(terminal.paint(terminal.stderr).red(line), file=terminal.stderr, flush=True)


def call_in_brief(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call in one line: `multiply(a=23, b=17)`."""
    listed = ", ".join(f"{key}={_quoted(value)}" for key, value in arguments.items())
    return in_one_line(f"{name}({listed})")


def call_in_full(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call for somebody who has to say yes to it, longer arguments as they are."""
    shown = [f"{visible(name)}:"]
    for key, value in arguments.items():
        lines = visible(as_text(value)).split("\n")
        if len(lines) == 1:
            shown.append(f"  {visible(key)}: {lines[0]}")
            continue
        shown.append(f"  {visible(key)}:")
        shown += [f"    {line}" for line in lines[:MOST_ASKED]]
        if len(lines) > MOST_ASKED:
            shown.append(f"    [... {len(lines) - MOST_ASKED} more lines that are not shown]")
    return "\n".join(shown)


def in_one_line(text: str) -> str:
    """Return text that shows its line breaks and other control characters."""
    return visible(text).replace("\n", "\\n")


def as_text(value: object) -> str:
    """Return a value as text: in its JSON form, or as Python shows it when it has none."""
    try:
        return json_text(value)
    except NotStorable:
        return repr(value)


def usage_in_brief(usage: Usage) -> str:
    """Return what was used, in one line."""
    cached = f" ({usage.cache_read_tokens} cached)" if usage.cache_read_tokens else ""
    cost = f", cost {usage.cost:.4f}" if usage.cost else ""
    return (
        f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens} out, "
        f"{usage.requests} requests, {usage.tool_calls} tool calls{cost}"
    )


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else as_text(value)
