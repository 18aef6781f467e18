"""Hold every store to the contract of stores, and print which were and which were not.

Run it as ``python -m tools.contract``. The exit status is 1 when anything fails; a store whose
server is not here is named with the reason.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

import pytest

STORES = ("memory", "file", "sqlite", "postgres", "mysql", "redis")
_NAMED = re.compile("|".join(STORES), re.IGNORECASE)


class Tally:
    """Counts what came of the tests of each store; pytest tells it."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {store: Counter() for store in STORES}
        self.reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase of one test."""
        named = _NAMED.findall(report.nodeid)
        if not named or (report.when != "call" and report.passed):
            return
        store = named[-1].lower()
        self.counts[store][report.outcome] += 1
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[store] = report.longrepr[2].removeprefix("Skipped: ")

    def table(self) -> str:
        """Return the table as text."""
        lines = [f"{'store':<10}{'passed':>8}{'failed':>8}{'skipped':>9}"]
        for store, counts in self.counts.items():
            numbers = f"{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
            why = "" if counts["passed"] or counts["failed"] else "no test"
            lines.append(f"{store:<10}{numbers}  {self.reasons.get(store, why)}".rstrip())
        return "\n".join(lines)


def main() -> int:
    """Run the contract, print the table and return the exit status."""
    tally = Tally()
    status = pytest.main(["-m", "contract", "tests/stores", "tests/contract"], plugins=[tally])
    print(tally.table())
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
