"""Pictures, sound and documents: as input, and as what a tool gives back."""

from typing import Literal

from treadle import Agent, Audio, File, Image, tool
from treadle.testing import ScriptedModel, calls

HEAD = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nG"
TAIL = "AAAAAElFTkSuQmCC"
PIXELS = {"red": "P4z8AAAAMBAQDJ/pLv", "blue": "NgYPgPAAEDAQAIicLs"}


def pixel(color: str) -> Image:
    """Return a picture of one pixel."""
    return Image.from_base64(HEAD + PIXELS[color] + TAIL, "image/png", detail="low")


@tool
def draw(color: Literal["red", "blue"]) -> Image:
    """Draw a picture."""
    return pixel(color)


model = ScriptedModel([calls(("c1", "draw", {"color": "blue"})), "Yours is red, mine is blue."])
spoken = Audio.from_base64("UklGRg==", "audio/wav")
paper = File.from_url("https://example.com/paper.pdf", name="paper.pdf")

result = Agent("painter", model, tools=[draw]).run_sync(["Compare:", pixel("red"), spoken, paper])
print([type(part).__name__ for part in result.messages[0].parts])
# > ['Text', 'Image', 'Audio', 'File']
print(result.messages[2].tool_results[0].parts == (pixel("blue"),))
# > True
print(result.output)
# > Yours is red, mine is blue.
