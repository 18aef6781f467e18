"""One agent, one run, one loop."""
