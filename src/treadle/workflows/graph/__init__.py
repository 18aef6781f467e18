"""Graphs: nodes, the edges between them, and parallel branches that join again."""
