"""What a model is told before anybody speaks."""

from treadle.prompts.render import Instructions, render_instructions

__all__ = ["Instructions", "render_instructions"]
