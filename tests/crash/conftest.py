"""Sweeps look at their stores from several threads."""

from __future__ import annotations

from importlib import import_module

# Imported here, once: a thread that imports a driver while another one does, waits in its event
# loop for that, which no loop may.
for _driver in (
    "redis.asyncio",
    "sqlalchemy.dialects.mysql.asyncmy",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "asyncmy",
    "asyncpg",
):
    import_module(_driver)
