"""The prompt of a chat: lines that go on, Ctrl-C and Ctrl-D."""

from __future__ import annotations

from treadle.cli.terminal import Terminal

PROMPT = "> "
CONTINUED = ". "


class Prompt:
    """Reads what somebody says. `interrupted` is whether they left by pressing Ctrl-C twice."""

    def __init__(self, terminal: Terminal) -> None:
        self.interrupted = False
        self._terminal = terminal
        self._interactive = terminal.stdin.isatty()

    def read(self) -> str | None:
        """Return what the user says, or None when they leave."""
        lines: list[str] = []
        while True:
            line = self._read_line(CONTINUED if lines else PROMPT)
            if line is None:
                return None
            if not line.endswith("\\"):
                return "\n".join([*lines, line]).strip()
            lines.append(line[:-1])

    def _read_line(self, prompt: str) -> str | None:
        if not self._interactive:
            line = self._terminal.stdin.readline()
            return line.rstrip("\n") if line else None
        while True:
            try:
                line = input(prompt)
            except EOFError:
                self._say("")
                return None
            except KeyboardInterrupt:
                if self.interrupted:
                    self._say("")
                    return None
                self.interrupted = True
                self._say("\n[press Ctrl-C again, or Ctrl-D, to leave]")
            else:
                self.interrupted = False
                return line

    def _say(self, text: str) -> None:
        print(text, file=self._terminal.stdout, flush=True)
