"""Gemini, of the Gemini API and of Vertex AI."""
