"""Runs whose processes are killed at every point, and what must be true of them afterwards."""
