"""What a model is told before anybody speaks."""

from treadle.prompts.builder import Prompt
from treadle.prompts.render import Instructions, render_instructions

__all__ = ["Instructions", "Prompt", "render_instructions"]
