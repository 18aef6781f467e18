"""A folder that file tools cannot leave."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from secrets import token_hex
from typing import BinaryIO

from treadle.errors import ConfigError, ToolError
from treadle.tools.names import likely

MOST_LINKS = 40
MOST_ENTRIES = 1000

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Workspace:
    """A folder, and the only way to the files in it.

    Each step of a path is opened relative to the folder before it and without following links;
    a link is read and its target walked in the same way. So neither `..`, nor an absolute path,
    nor a link leads outside, also when somebody swaps a folder for a link meanwhile. A hard link
    is not told from any other file.

    All failures are `ToolError`, with a text for the model, to whom it is `called` this.
    """

    __slots__ = ("called", "root")

    def __init__(self, root: str | Path, *, called: str = "workspace") -> None:
        self.called = called
        self.root = os.path.realpath(Path(root).expanduser())
        if not os.path.isdir(self.root):
            raise ConfigError(
                f"Workspace {str(root)!r} is not a folder; create it or name another."
            )

    @contextmanager
    def open(self, path: str) -> Generator[BinaryIO]:
        """Open a regular file for reading."""
        with _told(path):
            with self._reach(path) as (folder, name):
                try:
                    _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
                    descriptor = os.open(name, READING, dir_fd=folder)
                except FileNotFoundError:
                    raise _missing(path, folder, name, self.called) from None
            try:
                _check_regular(os.fstat(descriptor), path)  # it may be another file by now
                with open(descriptor, "rb", closefd=False) as file:
                    yield file
            finally:
                os.close(descriptor)

    def write(self, path: str, content: bytes) -> bool:
        """Create or replace a file, all of it or nothing; return whether it is new.

        Missing folders are created. A file that is there keeps its mode and owner.
        """
        if path.endswith(("/", "/.")):
            raise ToolError(f"{path!r} names a folder; name a file in it.")
        with _told(path), self._reach(path, create=True) as (folder, name):
            before = _replaced(path, folder, name)
            temporary = f".treadle-{token_hex(8)}.tmp"
            descriptor = os.open(temporary, CREATING, 0o666, dir_fd=folder)
            try:
                with open(descriptor, "wb") as file:
                    if before is not None:
                        with suppress(PermissionError):  # only root may give files away
                            os.fchown(descriptor, before.st_uid, before.st_gid)
                        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
                    file.write(content)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
        return before is None

    def entries(self, path: str) -> list[str]:
        """Return the names in a folder, sorted, folders with a slash at the end."""
        with _told(path), self._reach(path, into=True) as (folder, _), os.scandir(folder) as found:
            return sorted(
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in found
            )

    @contextmanager
    def _reach(
        self, path: str, *, create: bool = False, into: bool = False
    ) -> Generator[tuple[int, str]]:
        """Yield the open folder that holds `path` and its name there, "." for a folder itself.

        With `into` it is the folder `path` itself.
        """
        walk = _Walk(self.root, path, self.called)
        try:
            if into:
                walk.enter_last()
            name = walk.follow(create=create)
            yield walk.folder, name
        finally:
            walk.close()


class _Walk:
    """The way from the workspace's folder to one path, as a stack of open folders."""

    def __init__(self, root: str, path: str, called: str) -> None:
        self._root = root
        self._called = called
        self._path = path
        self._links = 0
        self._steps: deque[str] = deque()
        self._open = [os.open(root, FOLDER)]
        try:
            self._lead(path)
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> int:
        """The innermost folder so far."""
        return self._open[-1]

    def close(self) -> None:
        """Let go of all folders."""
        while self._open:
            os.close(self._open.pop())

    def enter_last(self) -> None:
        """Take the last step into a folder too, instead of only naming it."""
        self._steps.append(".")

    def follow(self, *, create: bool) -> str:
        """Go all the way; return the last name, or "." when the path ends at the folder itself."""
        while self._steps:
            name = self._steps.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                self._leave()
                continue
            target = self._target_of(name)
            if target is not None:
                self._lead(target)
            elif not self._steps:
                return name
            else:
                self._enter(name, create=create)
        return "."

    def _lead(self, path: str) -> None:
        """Put the steps of a path before those still to go; an absolute one begins at the root."""
        if os.path.isabs(path):
            path = self._from_root(path)
            while len(self._open) > 1:
                os.close(self._open.pop())
        self._steps.extendleft(reversed(path.split("/")))

    def _from_root(self, path: str) -> str:
        """Return an absolute path relative to the workspace; one by another name counts too."""
        for spelled in (path, os.path.realpath(path)):
            if PurePath(spelled).is_relative_to(self._root):
                return str(PurePath(spelled).relative_to(self._root))
        raise self._outside()

    def _enter(self, name: str, *, create: bool) -> None:
        try:
            self._open.append(os.open(name, FOLDER, dir_fd=self.folder))
        except FileNotFoundError:
            if not create:
                raise _missing(self._path, self.folder, name, self._called) from None
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.folder)
            self._open.append(os.open(name, FOLDER, dir_fd=self.folder))

    def _leave(self) -> None:
        if len(self._open) == 1:
            raise self._outside()
        os.close(self._open.pop())

    def _target_of(self, name: str) -> str | None:
        """Return where a link leads, or None when the name is no link."""
        try:
            target = os.readlink(name, dir_fd=self.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise
        self._links += 1
        if self._links > MOST_LINKS:
            raise ToolError(f"{self._path!r} goes through more than {MOST_LINKS} links.")
        return target

    def _outside(self) -> ToolError:
        return ToolError(
            f"{self._path!r} is outside the {self._called}; "
            "use a path inside it, like 'notes/a.txt'."
        )


@contextmanager
def _told(path: str) -> Generator[None]:
    """Turn what the system refuses into a text for the model."""
    if not path.strip():
        raise ToolError("The path is empty; name a file, for example 'notes/a.txt'.")
    if "\0" in path:
        raise ToolError(f"The path {path!r} holds a NUL character.")
    try:
        yield
    except IsADirectoryError as error:
        raise ToolError(f"{path!r} is a folder, not a file.") from error
    except NotADirectoryError as error:
        raise ToolError(f"A step of {path!r} is a file, not a folder.") from error
    except OSError as error:
        raise ToolError(f"{path!r}: {error.strerror or error}.") from error
    except UnicodeEncodeError as error:
        raise ToolError(f"The path {path!r} cannot be a file name here: {error.reason}.") from error


def _check_regular(found: os.stat_result, path: str) -> None:
    """Refuse what is no file: reading a pipe or a device could wait for ever."""
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path!r} is a folder, not a file.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{path!r} is no regular file (but a pipe, socket or device).")


def _replaced(path: str, folder: int, name: str) -> os.stat_result | None:
    """Return what stands where a file is to be written, or None; refuse what must stay."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_regular(found, path)
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{path!r} is read-only.")
    return found


def _missing(path: str, folder: int, name: str, called: str) -> ToolError:
    """Say that there is no such file, and what its name may be a misspelling of."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False)]
    near = likely(name, names)
    hint = f" Did you mean {near!r}?" if near is not None else ""
    return ToolError(f"There is no {name!r} in the {called} at {path!r}.{hint}")
