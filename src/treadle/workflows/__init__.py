"""Runs that are made of runs: several agents, in one journal."""
