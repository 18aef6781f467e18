"""What stands in for old turns, written by a model."""

from treadle.messages import Message, Thread
from treadle.ports.model import ModelRequest


class Summary:
    name = "summary"
    keep_recent = 0.5
    protect = ()
    share = 1.0

    async def note(self, gone, ask):
        text = repr(
            [m.text or [r.text for r in m.tool_results] for t in gone.turns for m in t.messages]
        )
        r = await ask(
            ModelRequest(messages=Thread([Message.user(f"{gone.note} {text}"[: gone.window])]))
        )
        return r.message.text


class Aggressive(Summary):
    name = "aggressive"
    keep_recent = 4
    protect = ("user", "final", "skills")
