"""Sweeps look at their stores from several threads."""

from __future__ import annotations

# Imported here, once: a thread that imports a driver while another one does, waits in its event
# loop for that, which no loop may.
import asyncmy as _asyncmy  # noqa: F401
import asyncpg as _asyncpg  # noqa: F401
import redis.asyncio as _redis  # noqa: F401
import sqlalchemy.dialects.mysql.asyncmy as _mysql  # noqa: F401
import sqlalchemy.dialects.postgresql.asyncpg as _postgresql  # noqa: F401
