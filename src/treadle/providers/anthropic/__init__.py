"""Anthropic's protocol: Messages."""
