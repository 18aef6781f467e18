"""Instructions in folders that an agent reads when it needs them: Agent Skills."""
