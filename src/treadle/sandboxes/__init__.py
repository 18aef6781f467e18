"""Where commands run: walls around them, and limits."""

from treadle.sandboxes.limits import SandboxLimits
from treadle.sandboxes.sandbox import Sandbox

__all__ = ["Sandbox", "SandboxLimits"]
