"""Where commands run: walls around them, and limits."""

from treadle.sandboxes.sandbox import Sandbox, SandboxLimits

__all__ = ["Sandbox", "SandboxLimits"]
