"""From a typed function to one executed batch of calls."""
