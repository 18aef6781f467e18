"""What of this system a command in a sandbox gets to see: programs and what they need."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

from treadle.tools.builtin.command import SECRET

PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu")
SETTINGS = (
    "alternatives",
    "debian_version",
    "fonts",
    "gai.conf",
    "gitconfig",
    "host.conf",
    "java-17-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "protocols",
    "services",
    "ssl/openssl.cnf",
    "timezone",
)
FOR_NETWORK = ("hosts", "pki/ca-trust", "pki/tls/certs", "resolv.conf", "ssl/certs")
DEVICES = ("null", "zero", "full", "random", "urandom")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEVER = ("/proc", "/sys", "/dev")
SHARED_MEMORY = PurePath("/dev/shm")  # noqa: S108 a folder of files, after all
PASSED_ON = ("LANG", "LANGUAGE", "TZ")


def settings(*, network: bool) -> list[str]:
    """Return the files and folders of /etc that programs may read: no users, no keys.

    Those for talking to others come with the network.
    """
    names = SETTINGS + FOR_NETWORK if network else SETTINGS
    return [path for name in names if os.path.exists(path := f"/etc/{name}")]


def told_to_root() -> list[str]:
    """Return the files in /proc that only root may read, such as what is where in memory."""
    with os.scandir("/proc") as entries:
        files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        return sorted(entry.path for entry in files if not entry.stat().st_mode & stat.S_IROTH)


def environment(passed: tuple[str, ...]) -> dict[str, str]:
    """Return the environment of a command: language and time zone, and what is passed by name."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in passed or (_is_language(name) and not SECRET.search(name))
    }
    return {"PATH": PATH, "LANG": "C.UTF-8", **kept}


def _is_language(name: str) -> bool:
    return name in PASSED_ON or name.startswith("LC_")


def check_folder(path: str) -> None:
    """Refuse a file or folder that would leave no wall.

    Raises:
        ValueError: it holds the whole system, or is a part of the kernel's own files.
    """
    within = PurePath(path)
    if path == "/" or (
        any(within.is_relative_to(each) for each in NEVER) and SHARED_MEMORY not in within.parents
    ):
        raise ValueError(f"{path!r} is no folder for a sandbox; name one of files")


def mounts_below(path: str) -> list[str]:
    """Return where something is mounted below a folder, as far as this system tells that."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    places = (re.sub(rb"\\(\d{3})", _byte, line.split(b" ")[4]) for line in lines)
    return sorted({place for place in map(os.fsdecode, places) if place.startswith(f"{path}/")})


def _byte(octal: re.Match[bytes]) -> bytes:
    return bytes([int(octal[1], 8)])


def own_folders(writable: list[str]) -> Iterator[str]:
    """Yield the folders of this very program that lie in folders which a command may change.

    What is written there runs outside, the next time that this program loads something.
    """
    for own in {os.path.realpath(sys.prefix), str(Path(__file__).resolve().parents[1])}:
        if any(PurePath(own).is_relative_to(each) and own != each for each in writable):
            yield own
