"""What stands in for old turns, written by a model."""

from treadle.compaction.summary import Aggressive


class Checkpoint(Aggressive):
    name = "checkpoint"
    keep_recent = 8
