"""OpenAI's protocols, and the many servers that speak them."""
