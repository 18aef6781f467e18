"""How much a command may use."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from treadle.errors import ConfigError

MB = 1_000_000
MOST = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """How much a command may use. Sizes are in bytes; None is no limit.

    `memory` and `processes` (threads count) are for all that a command starts, together;
    `cpu_seconds`, `file_size` and `open_files` for each process. `tmp_size` is the room in /tmp,
    which is memory, and once more in /dev/shm; Landlock does not know it.

    Raises:
        ConfigError: a limit is no whole number above 0 and below 2^63.
    """

    cpu_seconds: int | None = 600
    memory: int | None = 2000 * MB
    processes: int | None = 256
    file_size: int | None = 1000 * MB
    open_files: int | None = 1024
    tmp_size: int = 100 * MB

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value: object = getattr(self, name)
            if value is None and name != "tmp_size":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < MOST:
                raise ConfigError(
                    f"SandboxLimits({name}={value!r}): give a whole number above 0 and below 2^63."
                )

    def by_kernel(self) -> list[tuple[int, int]]:
        """Return the limits that the kernel holds for each process."""
        bounds = [
            (resource.RLIMIT_CPU, self.cpu_seconds),
            (resource.RLIMIT_DATA, self.memory),
            (resource.RLIMIT_FSIZE, self.file_size),
            (resource.RLIMIT_NOFILE, self.open_files),
            (resource.RLIMIT_CORE, 0),
        ]
        return [(kind, most) for kind, most in bounds if most is not None]
