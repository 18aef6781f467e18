"""A filter of system calls, as the bytes that the kernel takes.

It closes what the walls around a command do not: calls that reach the kernel by another way than
files and sockets, new namespaces, sockets to the host of a virtual machine, input put into a
terminal, and memory that counts as nobody's.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from struct import pack

from msgspec import Struct

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of a machine in the tables below, and its name in the kernel."""

LOAD, AND, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE, ASK = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
X32 = 0x40000000

NEW_NAMESPACES = 0x7E020000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
FILE_ATTRIBUTES = (  # set through a file that is only read
    0x40086602,  # FS_IOC_SETFLAGS
    0x40046602,  # the same in 32 bits
    0x401C5820,  # FS_IOC_FSSETXATTR
    0x40087602,  # FS_IOC_SETVERSION
    0x40806685,  # FS_IOC_ENABLE_VERITY
    0x800C6613,  # FS_IOC_SET_ENCRYPTION_POLICY
    0x6609,  # EXT4_IOC_MIGRATE
)
LEASES = (1024, 1040)
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
INTERNET = (AF_INET, AF_INET6, AF_NETLINK)
SOCK_STREAM, SOCK_SEQPACKET, SOCK_TYPE = 1, 5, 0xF
PRIO_USER, IOPRIO_WHO_USER = 2, 3

CLONE, IOCTL, SOCKET, SOCKETPAIR = (56, 220), (16, 29), (41, 198), (53, 199)
FCNTL = (72, 25)
SETPRIORITY, IOPRIO_SET, UTIMENSAT = (141, 140), (251, 30), (280, 88)
SECCOMP, OPEN, OPENAT, CREAT = (317, 277), (2, -1), (257, 56), (85, -1)
MKNOD, MKNODAT = (133, -1), (259, 33)
CHMOD, FCHMOD, FCHMODAT, FCHMODAT2 = (90, -1), (91, 52), (268, 53), (452, 452)
O_CREAT, RUNS_AS_OWNER = 0o100, 0o6000

Numbers = dict[str, tuple[int, int]]
"""System calls: their numbers on x86_64 and on aarch64, -1 where there is none."""

UNKNOWN: Numbers = {  # programs then take another way
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "openat2": (437, 437),
    "shmget": (29, 194),
}
FORBIDDEN: Numbers = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
OTHER_PROCESSES: Numbers = {
    "kcmp": (312, 272),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "semget": (64, 190),
}
OF_A_PROCESS: Numbers = {  # whose first argument is a process, 0 for the caller
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
ATTRIBUTES: Numbers = {  # programs do without them where there are none
    "file_setattr": (469, 469),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
}
OLD_TIMES: Numbers = {
    "futimesat": (261, -1),
    "utime": (132, -1),
    "utimes": (235, -1),
}
MODES: Numbers = {  # of a file that need not be open; Landlock knows nothing of these
    "chmod": CHMOD,
    "chown": (92, -1),
    "fchmodat": FCHMODAT,
    "fchmodat2": FCHMODAT2,
    "fchownat": (260, 54),
    "lchown": (94, -1),
}
MODES_OF_OPEN: Numbers = {
    "fchmod": FCHMOD,
    "fchown": (93, 55),
}


class Check(Struct, frozen=True):
    """Refuse a call by one of its arguments, looked at through `mask`.

    Refused is what has any of the `bits`, is one of `wrong`, or is none of `right`. Without any of
    the bits that it `needs` the call is allowed, whatever else would be looked at.
    """

    argument: int
    wrong: tuple[int, ...] = ()
    right: tuple[int, ...] | None = None
    bits: int = 0
    mask: int = 0xFFFFFFFF
    high: bool = False
    verdict: int = REFUSE | errno.EPERM
    needs: int = 0


Checked = tuple[tuple[int, int], list[Check]]
"""The numbers of a call, each but once in a filter, and what is looked at."""

CONNECTED_PAIRS: Checked = (
    SOCKETPAIR,
    [Check(1, right=(SOCK_STREAM, SOCK_SEQPACKET), mask=SOCK_TYPE)],
)
"""Pairs of sockets that send to each other only; any other could send to one outside."""


def enclosed_filter(machine: str, *, network: bool) -> bytes:
    """Return the filter inside namespaces: what they do not hold.

    With the network there come the abstract Unix sockets of this machine, so there are none then.

    Raises:
        ValueError: the calls of this machine are not known.
    """
    families = INTERNET if network else (AF_UNIX, *INTERNET)
    modes = [
        (numbers, [Check(at, bits=RUNS_AS_OWNER)])
        for numbers, at in ((CHMOD, 1), (FCHMOD, 1), (FCHMODAT, 2), (FCHMODAT2, 2))
    ]
    pairs = [CONNECTED_PAIRS] if network else []
    return _program(machine, _always(), _checked(families) + modes + pairs)


def open_filter(machine: str, *, network: bool, root: bool) -> bytes:
    """Return the filter where there are no namespaces, but only Landlock.

    It keeps from other processes of the same user, and asks the listener about modes, owners and
    times of files; for `root` also of open ones, because those that it may only read are its own.

    Raises:
        ValueError: the calls of this machine are not known.
    """
    families = INTERNET if network else ()
    attributes = Check(1, wrong=FILE_ATTRIBUTES, verdict=REFUSE | errno.ENOTTY)
    checked = _checked(families, attributes)
    checked += [
        CONNECTED_PAIRS,
        (SETPRIORITY, [Check(0, wrong=(PRIO_USER,)), Check(1, right=(0,))]),
        (IOPRIO_SET, [Check(0, wrong=(IOPRIO_WHO_USER,)), Check(1, right=(0,))]),
        (UTIMENSAT, _asked_times(root=root)),
    ]
    checked += [(numbers, [Check(0, right=(0,))]) for numbers in OF_A_PROCESS.values()]
    if not root:
        checked.append((FCHMOD, [Check(1, bits=RUNS_AS_OWNER)]))
    answers = _always() + _answers(OTHER_PROCESSES | OLD_TIMES, REFUSE | errno.EPERM)
    answers += _answers(ATTRIBUTES, REFUSE | errno.EOPNOTSUPP)
    answers += _answers(MODES | (MODES_OF_OPEN if root else {}), ASK)
    return _program(machine, answers, checked)


def call_number(machine: str) -> int:
    """Return the number of the call that sets a filter, -1 where it is not known."""
    return SECCOMP[MACHINES[machine][0]] if machine in MACHINES else -1


def asked_calls(machine: str) -> dict[int, str]:
    """Return the names of the calls that the listener is asked about, by their numbers."""
    column, _ = MACHINES[machine]
    calls = MODES | MODES_OF_OPEN | {"utimensat": UTIMENSAT}
    return {numbers[column]: name for name, numbers in calls.items() if numbers[column] >= 0}


def _asked_times(*, root: bool) -> list[Check]:
    """Ask about times of files by their paths; for root about all."""
    if root:
        return [Check(1, right=(), verdict=ASK)]
    return [
        Check(1, right=(0,), verdict=ASK),
        Check(1, right=(0,), high=True, verdict=ASK),
    ]


def _always() -> list[tuple[tuple[int, int], int]]:
    return _answers(UNKNOWN, REFUSE | errno.ENOSYS) + _answers(FORBIDDEN, REFUSE | errno.EPERM)


def _answers(calls: Numbers, verdict: int) -> list[tuple[tuple[int, int], int]]:
    return [(numbers, verdict) for numbers in calls.values()]


def _checked(families: tuple[int, ...], *ioctl: Check) -> list[Checked]:
    return [
        (CLONE, [Check(0, bits=NEW_NAMESPACES)]),
        (IOCTL, [Check(1, wrong=(TIOCSTI, TIOCLINUX)), *ioctl]),
        (FCNTL, [Check(1, wrong=LEASES)]),  # would keep others from writing
        (SOCKET, [Check(0, right=families)]),
        (OPEN, [Check(1, needs=O_CREAT), Check(2, bits=RUNS_AS_OWNER)]),
        (OPENAT, [Check(2, needs=O_CREAT), Check(3, bits=RUNS_AS_OWNER)]),
        (CREAT, [Check(1, bits=RUNS_AS_OWNER)]),
        (MKNOD, [Check(1, bits=RUNS_AS_OWNER)]),
        (MKNODAT, [Check(2, bits=RUNS_AS_OWNER)]),
    ]


def _program(
    machine: str,
    answered: list[tuple[tuple[int, int], int]],
    checked: list[Checked],
) -> bytes:
    if machine not in MACHINES:
        known = " and ".join(MACHINES)
        raise ValueError(f"its system calls are known for {known}, not for {machine}")
    column, name = MACHINES[machine]
    lines = [_line(LOAD, 4), _line(EQUAL, name, 1, 0), _line(RETURN, KILL), _line(LOAD, 0)]
    if machine == "x86_64":
        lines += [_line(AT_LEAST, X32, 0, 1), _line(RETURN, REFUSE | errno.EPERM)]
    for numbers, verdict in answered:
        if numbers[column] >= 0:
            lines += [_line(EQUAL, numbers[column], 0, 1), _line(RETURN, verdict)]
    for numbers, checks in checked:
        if numbers[column] < 0:
            continue
        block = [line for check in checks for line in _lines(check)] + [_line(RETURN, ALLOW)]
        lines += [_line(EQUAL, numbers[column], 0, len(block)), *block]
    return b"".join([*lines, _line(RETURN, ALLOW)])


def _lines(check: Check) -> Iterable[bytes]:
    refuse = _line(RETURN, check.verdict)
    yield _line(LOAD, 16 + 8 * check.argument + 4 * check.high)
    yield _line(AND, check.mask)
    if check.needs:
        yield from (_line(ANY_BIT, check.needs, 1, 0), _line(RETURN, ALLOW))
    if check.bits:
        yield from (_line(ANY_BIT, check.bits, 0, 1), refuse)
    for value in check.wrong:
        yield from (_line(EQUAL, value, 0, 1), refuse)
    if check.right is not None:
        for left, value in zip(range(len(check.right), 0, -1), check.right, strict=True):
            yield _line(EQUAL, value, left, 0)
        yield refuse


def _line(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return pack("<HBBI", code, if_so, if_not, value)
