"""The reference pages say what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import regenerate


def test_no_page_is_stale(capsys: pytest.CaptureFixture[str]) -> None:
    """`tools/regenerate.py --check` finds nothing."""
    code = regenerate.main(["--check"])

    assert code == 0, capsys.readouterr().out


def test_what_is_stale_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pages that are missing, changed or made by nothing fail the check and are named."""
    assert regenerate.main(["--check"], tmp_path) == 1
    assert regenerate.main([], tmp_path) == 0
    capsys.readouterr()
    changed = tmp_path / "events.md"
    changed.write_text(changed.read_text(encoding="utf-8").replace("call_id", "id", 1), "utf-8")
    (tmp_path / "old.md").write_text("# Old\n", "utf-8")

    assert regenerate.main(["--check"], tmp_path) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in told] == [str(changed), str(tmp_path / "old.md")]


def test_every_event_and_error_is_there() -> None:
    """The pages of events and errors have a line for each."""
    events, errors = regenerate.events_page(), regenerate.errors_page()

    assert "`run.finished`" in events
    assert "`tool.progress`" in events
    assert "│   ├── RateLimited" in errors
    assert "└── ToolAbort" in errors
