"""The filters, run on calls as the kernel would: on both machines that they are made for."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from struct import iter_unpack, pack, unpack_from
from typing import Any

import pytest

from treadle.sandboxes import seccomp
from treadle.sandboxes.seccomp import ALLOW, ASK, KILL, enclosed_filter, open_filter

ENOSYS, EPERM = 0x00050000 | 38, 0x00050000 | 1
MACHINES = ("x86_64", "aarch64")
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
TABLES = (
    *("UNKNOWN", "FORBIDDEN", "OTHER_PROCESSES", "OF_A_PROCESS", "ATTRIBUTES", "OLD_TIMES"),
    *("MODES", "MODES_OF_OPEN"),
)


def verdict(program: bytes, machine: str, number: int, *arguments: int, name: int = 0) -> int:
    """Return what a filter says of a call."""
    padded = [*arguments, *([0] * (6 - len(arguments)))]
    call = pack("<iIQ6Q", number, name or seccomp.MACHINES[machine][1], 0, *padded)
    lines = list(iter_unpack("<HBBI", program))
    held, at = 0, 0
    while True:
        code, if_so, if_not, value = lines[at]
        at += 1
        match code:
            case seccomp.LOAD:
                (held,) = unpack_from("<I", call, value)
            case seccomp.AND:
                held &= value
            case seccomp.EQUAL:
                at += if_so if held == value else if_not
            case seccomp.AT_LEAST:
                at += if_so if held >= value else if_not
            case seccomp.ANY_BIT:
                at += if_so if held & value else if_not
            case seccomp.RETURN:
                return value
            case _:
                pytest.fail(f"unknown instruction {code:#x}")


def column(machine: str) -> int:
    """Return where a machine's numbers stand."""
    return seccomp.MACHINES[machine][0]


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_headers(machine: str) -> None:
    """Each call that this machine's headers know has the number that is written there."""
    path = HEADERS[machine]
    if not path.exists():
        pytest.skip(f"no headers of Linux here: {path}")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())
    known = {name: int(number) for name, number in reversed(found)}
    calls = {name: numbers for table in TABLES for name, numbers in getattr(seccomp, table).items()}
    calls |= {"clone": seccomp.CLONE, "ioctl": seccomp.IOCTL, "socket": seccomp.SOCKET}
    calls |= {"fcntl": seccomp.FCNTL, "socketpair": seccomp.SOCKETPAIR}
    calls |= {"setpriority": seccomp.SETPRIORITY}
    calls |= {"ioprio_set": seccomp.IOPRIO_SET, "utimensat": seccomp.UTIMENSAT}
    calls |= {"seccomp": seccomp.SECCOMP, "open": seccomp.OPEN, "openat": seccomp.OPENAT}
    calls |= {"creat": seccomp.CREAT, "mknod": seccomp.MKNOD, "mknodat": seccomp.MKNODAT}

    checked = {name: numbers[column(machine)] for name, numbers in calls.items() if name in known}

    assert checked == {name: known[name] for name in checked}
    assert len(checked) > 60


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_refused(machine: str) -> None:
    """What is forbidden is refused, what is unknown is missing, the rest is allowed."""
    inside = enclosed_filter(machine, network=False)
    at = column(machine)

    for table, expected in ((seccomp.FORBIDDEN, EPERM), (seccomp.UNKNOWN, ENOSYS)):
        for name, numbers in table.items():
            if numbers[at] >= 0:
                assert verdict(inside, machine, numbers[at]) == expected, name
    assert verdict(inside, machine, seccomp.OTHER_PROCESSES["ptrace"][at], 16, 1) == ALLOW
    assert verdict(inside, machine, 9999) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_only_some_sockets_are_given(machine: str) -> None:
    """Without namespaces and network there is none, else those of the internet."""
    number = seccomp.SOCKET[column(machine)]
    filters = {
        enclosed_filter(machine, network=False): {1, 2, 10, 16},
        enclosed_filter(machine, network=True): {2, 10, 16},
        open_filter(machine, network=False, root=False): set[int](),
        open_filter(machine, network=True, root=False): {2, 10, 16},
    }

    for program, families in filters.items():
        allowed = {each for each in range(50) if verdict(program, machine, number, each) == ALLOW}
        assert allowed == families
    assert int(socket.AF_INET6) == seccomp.AF_INET6


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("call", "arguments", "allowed"),
    [
        ("CLONE", (0x01200011,), True),  # as fork does
        ("CLONE", (0x10000011,), False),  # a user namespace
        ("IOCTL", (0, 0x5413), True),  # the size of a terminal
        ("IOCTL", (0, 0x5412), False),
        ("IOCTL", (0, 0xFFFFFFFF_00005412), False),  # the kernel looks at the lower half
        ("SOCKETPAIR", (1, 1), True),
        ("SOCKETPAIR", (1, 5), True),
        ("SOCKETPAIR", (1, 2 | 0o2000000), False),
        ("SOCKETPAIR", (1, 3), False),  # another name of the same
        ("FCNTL", (3, 4), True),
        ("FCNTL", (3, 1024), False),
        ("SETPRIORITY", (0, 0, 5), True),
        ("SETPRIORITY", (0, 77, 5), False),
        ("SETPRIORITY", (2, 0, 5), False),
        ("OPENAT", (3, 0x1000, 0o101, 0o644), True),
        ("OPENAT", (3, 0x1000, 0o101, 0o4644), False),
        ("OPENAT", (3, 0x1000, 0o1, 0o7777), True),  # no mode where nothing is made
        ("MKNODAT", (3, 0x1000, 0o102755), False),
        ("FCHMOD", (3, 0o755), True),
        ("FCHMOD", (3, 0o4755), False),
    ],
)
def test_calls_are_refused_by_their_arguments(
    machine: str, call: str, arguments: tuple[int, ...], allowed: bool
) -> None:
    """Where a call has its uses, only what would harm is refused."""
    program = open_filter(machine, network=False, root=False)
    number = getattr(seccomp, call)[column(machine)]

    assert verdict(program, machine, number, *arguments) == (ALLOW if allowed else EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_pairs_with_the_network_only_talk_to_each_other(machine: str) -> None:
    """The abstract sockets of this machine come with its network; alone, there are none."""
    number = seccomp.SOCKETPAIR[column(machine)]
    offline, online = (enclosed_filter(machine, network=network) for network in (False, True))

    assert [verdict(offline, machine, number, 1, kind) for kind in (1, 2, 3, 5)] == [ALLOW] * 4
    assert [verdict(online, machine, number, 1, kind) == ALLOW for kind in (1, 2, 3, 5)] == [
        *(True, False, False, True)
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_attributes_of_files_are_not_set_through_open_ones(machine: str) -> None:
    """A file that may only be read can be opened, and has attributes beyond its mode."""
    number = seccomp.IOCTL[column(machine)]
    inside = enclosed_filter(machine, network=False)
    beside = open_filter(machine, network=False, root=True)

    for wanted in seccomp.FILE_ATTRIBUTES:
        assert verdict(inside, machine, number, 3, wanted) == ALLOW
        assert verdict(beside, machine, number, 3, wanted) == 0x00050000 | 25
    assert verdict(beside, machine, number, 3, 0x80086601) == ALLOW  # to read them


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_is_looked_at_in_one_place(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second place would never be reached."""
    seen: list[list[tuple[int, int]]] = []

    def keep(_: str, answered: list[tuple[tuple[int, int], int]], checked: list[Any]) -> bytes:
        seen.append([numbers for numbers, _ in [*answered, *checked]])
        return b""

    monkeypatch.setattr(seccomp, "_program", keep)
    for network in (True, False):
        enclosed_filter(machine, network=network)
        for root in (True, False):
            open_filter(machine, network=network, root=root)

    assert len(seen) == 6
    for calls in seen:
        assert len(calls) == len(set(calls))


@pytest.mark.parametrize("machine", MACHINES)
def test_other_processes_are_left_alone(machine: str) -> None:
    """Calls that name a process may name the caller."""
    program = open_filter(machine, network=False, root=False)

    for name, numbers in seccomp.OF_A_PROCESS.items():
        number = numbers[column(machine)]
        assert verdict(program, machine, number, 0) == ALLOW, name
        assert verdict(program, machine, number, 77) == EPERM, name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("root", [True, False])
def test_modes_are_asked_about(machine: str, root: bool) -> None:
    """By the path of a file always, and by an open one where root owns what it may only read."""
    program = open_filter(machine, network=False, root=root)
    names = seccomp.asked_calls(machine)
    at = column(machine)
    asked = {number for number in range(600) if verdict(program, machine, number, 3, 9) == ASK}

    assert {names[number] for number in asked} == {
        *(name for name, numbers in seccomp.MODES.items() if numbers[at] >= 0),
        *(seccomp.MODES_OF_OPEN if root else ()),
        "utimensat",
    }
    times = seccomp.UTIMENSAT[at]
    assert verdict(program, machine, times, 3, 0) == (ASK if root else ALLOW)
    assert verdict(program, machine, times, 3, 0x7F00_0000_0000) == ASK


def test_calls_by_another_name_end_the_process() -> None:
    """Calls of 32 bits have other numbers, and those of x32 another bit."""
    program = enclosed_filter("x86_64", network=False)

    assert verdict(program, "x86_64", 0, name=0x40000003) == KILL
    assert verdict(program, "x86_64", 0x40000000) == EPERM


def test_an_unknown_machine_is_told() -> None:
    """No filter is better than a wrong one."""
    with pytest.raises(ValueError, match="known for x86_64 and aarch64, not for riscv64"):
        enclosed_filter("riscv64", network=False)
