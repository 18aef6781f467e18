"""The stories: one run for each way that agents work together, to be killed at any moment."""

from __future__ import annotations

from tests.crash.stories import delegates, graphs, plan, relay, swarm
from tests.crash.story import Story

STORIES = (
    Story(name="relay", build_of=relay.build),
    Story(name="swarm", build_of=swarm.build),
    Story(name="cycle", build_of=graphs.cycle),
    Story(name="fan-out", build_of=graphs.fan_out),
    Story(name="sub-graph", build_of=graphs.within),
    Story(name="plan", build_of=plan.build),
    Story(name="asked", build_of=delegates.asked),
    Story(name="background", build_of=delegates.background),
)
