"""Programs that reference pages begin with."""

AN_EVENT = """\
```python
import asyncio

from treadle import Agent
from treadle.testing import ScriptedModel


async def main() -> None:
    async for event in Agent("greeter", model=ScriptedModel(["Hello."])).stream("Hi!"):
        print(event.type)
        #> run.started
        #> model.started
        #> text.delta
        #> model.finished
        #> answer.stored
        #> run.finished


asyncio.run(main())
```"""

AN_ERROR = """\
```python
from treadle import Agent, TreadleError
from treadle.testing import ScriptedModel

try:
    Agent("greeter", model=ScriptedModel([])).run_sync("Hi!")
except TreadleError as error:
    print(type(error).__name__, error.result.stop_reason)
    #> ConfigError failed
```"""

SETTINGS = """\
```python
from treadle import Agent, ModelSettings, Retry
from treadle.testing import ScriptedModel

agent = Agent(
    "greeter",
    model=ScriptedModel(["Hello."]),
    settings=ModelSettings(temperature=0.2),
    retry=Retry(attempts=5),
)
print(agent.run_sync("Hi!", settings=ModelSettings(seed=7)).output)
#> Hello.
```"""
