"""Whole programs that are started cold; each loads only what it needs."""
