"""The stories: one run for each way that agents work together, to be killed at any moment."""

from __future__ import annotations

from tests.crash.stories import relay
from tests.crash.story import Story

STORIES = (Story(name="relay", build_of=relay.build),)
