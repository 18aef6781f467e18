"""`treadle models`: what is here, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Treadle


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder without any model."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path))
    monkeypatch.delenv("TREADLE_LOCAL_MODEL", raising=False)
    return tmp_path


def test_models_are_listed(treadle: Treadle) -> None:
    """Each known model has its name, its size and how to get it."""
    ended = treadle("models", "list")

    assert ended.code == 0
    assert ended.out.startswith("local:qwen2.5-coder-0.5b   491 MB  Apache-2.0\n")
    assert "not here; fetch it with: treadle models pull smollm2-135m\n" in ended.out


@pytest.mark.parametrize("name", ["smollm2-135m", "local:smollm2-135m"])
def test_a_model_that_is_not_here_has_no_path(treadle: Treadle, name: str) -> None:
    """The message is the command that fetches it."""
    ended = treadle("models", "path", name)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.endswith("fetch it with: treadle models pull smollm2-135m\n")


@pytest.mark.parametrize("command", ["path", "pull"])
def test_a_model_that_nobody_knows_is_wrong_usage(treadle: Treadle, command: str) -> None:
    """The message names those that are known."""
    ended = treadle("models", command, "nobody")

    assert ended.code == 2
    assert "local:smollm2-135m" in ended.err


def test_a_file_of_ones_own_has_a_path(
    treadle: Treadle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default model is whatever file the environment names; it is not fetched."""
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF" + bytes(1000))
    monkeypatch.setenv("TREADLE_LOCAL_MODEL", str(mine))

    assert treadle("models", "path").out == f"{mine}\n"
    assert treadle("models", "pull").out == f"{mine}\n"


def test_a_folder_that_cannot_be_written_is_told(
    treadle: Treadle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is fetched when there is no place for it."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "file"))

    ended = treadle("models", "pull")

    assert ended.code == 1
    assert "Set TREADLE_CACHE to a folder that can be written to." in ended.err
