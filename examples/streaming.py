"""The events of a run, as they happen."""

import asyncio

from treadle import Agent, ModelFinished, RunFinished, TextDelta, ToolFinished, ToolStarted, tool
from treadle.testing import ScriptedModel, calls, chunks


@tool
async def search(query: str) -> list[str]:
    """Search the library."""
    return [f"{query}: a survey", f"{query}: basics"]


async def main() -> None:
    """Print what comes."""
    asked = calls(("c1", "search", {"query": "looms"}), text="I shall look.")
    model = ScriptedModel([asked, chunks(["There ", "are ", "two."])])
    async for event in Agent("librarian", model, tools=[search]).stream("Books on looms?"):
        match event:
            case TextDelta(text=text):
                print(text, end="|")
            case ModelFinished(final=final):
                print("(answer)" if final else "(preamble)")
            case ToolStarted(name=name, arguments=arguments):
                print("->", name, arguments)
            case ToolFinished(output=output):
                print("<-", output)
            case RunFinished(stop_reason=reason):
                print(reason)
            case _:
                pass
    # > I shall look.|(preamble)
    # > -> search {'query': 'looms'}
    # > <- ["looms: a survey","looms: basics"]
    # > There |are |two.|(answer)
    # > answer


asyncio.run(main())
