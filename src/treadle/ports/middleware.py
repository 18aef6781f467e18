"""The seam for what may change behaviour: hooks around the model, the tools and the answer."""

from __future__ import annotations

import inspect
from typing import Any

from treadle.errors import ConfigError
from treadle.messages import ToolCall, ToolResult
from treadle.ports.context import RunContext
from treadle.ports.model import ModelReply, ModelRequest


class Middleware:
    """Override what you need; what you do not override costs nothing.

    ```python
    from treadle import Agent, Middleware
    from treadle.testing import ScriptedModel


    class Sign(Middleware):
        async def before_final(self, ctx, output):
            return f"{output} (checked)"


    agent = Agent("clerk", model=ScriptedModel(["Done."]), middleware=[Sign()])
    print(agent.run_sync("Go.").output)
    #> Done. (checked)
    ```

    Several run in the order given before the model or a tool, and in reverse order after it. An
    exception fails the run, but in the two tool hooks a `ToolError` becomes the call's result.

    Any hook may advise the model with `ctx.advise(text)`: it reads that in a user message after the
    results of the turn. Advice is stored with the turn, said once, and ignored after an answer.
    """

    async def before_model(
        self, ctx: RunContext, request: ModelRequest
    ) -> ModelRequest | ModelReply | None:
        """Return another request, or a reply to use instead of asking, or None for no change."""
        return None

    async def after_model(self, ctx: RunContext, reply: ModelReply) -> ModelReply | None:
        """Return another reply, or None for no change."""
        return None

    async def before_tool(
        self, ctx: RunContext, call: ToolCall, arguments: dict[str, Any]
    ) -> dict[str, Any] | ToolResult | None:
        """Return other arguments, or a result to use instead of running, or None for no change.

        `arguments` are the validated values that the tool would get; other ones are validated too.
        Raise `ToolError` to refuse the call with a text for the model.
        """
        return None

    async def after_tool(
        self, ctx: RunContext, call: ToolCall, result: ToolResult
    ) -> ToolResult | None:
        """Return another result, or None for no change. A long one is still whole here."""
        return None

    async def before_final(self, ctx: RunContext, output: Any) -> Any:
        """Return the output to answer with; called once, with the text or the typed value."""
        return output


HOOKS = ("before_model", "after_model", "before_tool", "after_tool", "before_final")


class Hooks:
    """The middleware of one run, sorted by hook, without those that a class did not override."""

    __slots__ = HOOKS

    def __init__(self, middleware: tuple[Middleware, ...] = ()) -> None:
        self.before_model = tuple(
            m.before_model for m in middleware if _overrides(m, "before_model")
        )
        self.before_tool = tuple(m.before_tool for m in middleware if _overrides(m, "before_tool"))
        inner_first = middleware[::-1]
        self.after_model = tuple(m.after_model for m in inner_first if _overrides(m, "after_model"))
        self.after_tool = tuple(m.after_tool for m in inner_first if _overrides(m, "after_tool"))
        self.before_final = tuple(
            m.before_final for m in inner_first if _overrides(m, "before_final")
        )


NO_HOOKS = Hooks()


def _overrides(middleware: object, hook: str) -> bool:
    """Whether its class overrides the hook.

    Raises:
        ConfigError: it is no middleware, or the hook is not async.
    """
    if not isinstance(middleware, Middleware):
        raise ConfigError(
            f"{middleware!r:.80} is no Middleware object; subclass it and pass an instance."
        )
    own = getattr(type(middleware), hook)
    if own is getattr(Middleware, hook):
        return False
    if not inspect.iscoroutinefunction(own):
        raise ConfigError(f"{type(middleware).__name__}.{hook} must be async.")
    return True
