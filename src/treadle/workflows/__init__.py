"""Several agents in one run: everything here can be run like an agent."""
