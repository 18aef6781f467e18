"""What a command may try, and which back ends contain it: the table of the docs.

An attack is a Python program that prints REACHED when it got what it wanted. `place` has the paths
and numbers that it needs, and `harm` looks from outside for what it has done.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.tools.builtin.left import running
from treadle.sandboxes import SandboxLimits

MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is around a sandbox: a folder beside the workspace, a process, sockets, a terminal."""

    workspace: Path
    outside: Path
    victim: int
    tcp: int
    udp: int
    abstract: str
    terminal: str
    own_file: str
    heard: Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One row of the table. `local` is whether the back end that contains little contains it."""

    title: str
    program: str
    bubblewrap: bool = True
    landlock: bool = True
    local: bool = False
    depends: bool = False
    """Whether it is up to the user and the machine what comes of it without walls."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    seconds: float = 20
    harm: Callable[[Place], bool] = lambda _: False

    def contained_by(self, backend: str) -> bool:
        """Return what the docs say."""
        contained: bool = getattr(self, backend)
        return contained

    def written_for(self, place: Place) -> str:
        """Return the program, with what is around it."""
        names: dict[str, Any] = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in ((name, getattr(place, name)) for name in place.__slots__)
            if not callable(value)
        }
        return f"import os, sys, socket, time, ctypes\nplace = {names!r}\n{self.program}"


def _mode(place: Place) -> bool:
    return stat.S_IMODE((place.outside / "secret.txt").stat().st_mode) != 0o640


def _written(place: Place) -> bool:
    return (place.outside / "new.txt").exists()


ATTACKS = (
    Attack(
        title="read a file outside the workspace",
        program="print(open(place['outside'] + '/secret.txt').read()); print('REACHED')",
    ),
    Attack(
        title="write a file outside the workspace",
        program="open(place['outside'] + '/new.txt', 'w').write('x'); print('REACHED')",
        harm=_written,
    ),
    Attack(
        title="leave by `..`",
        program="print(open('../outside/secret.txt').read()); print('REACHED')",
    ),
    Attack(
        title="leave by a symbolic link",
        program="""
os.symlink(place['outside'], 'way')
print(open('way/secret.txt').read())
open('way/new.txt', 'w').write('x')
print('REACHED')
""",
        harm=_written,
    ),
    Attack(
        title="leave by a hard link",
        program="""
os.link(place['outside'] + '/secret.txt', 'mine')
print(open('mine').read())
print('REACHED')
""",
    ),
    Attack(
        title="change the mode or times of a file outside",
        program="""
os.symlink(place['outside'], 'way')
folder = os.open('.', os.O_RDONLY)
secret = place['outside'] + '/secret.txt'
libc = ctypes.CDLL(None, use_errno=True)
for change in (
    lambda: os.chmod(secret, 0o777),
    lambda: os.chmod('way/secret.txt', 0o777),
    lambda: os.chmod('../outside/secret.txt', 0o777, dir_fd=folder),
    lambda: os.chmod(os.open(secret, os.O_PATH), 0o777),
    lambda: os.chmod(f"/proc/self/fd/{os.open(secret, os.O_PATH)}", 0o777),
    lambda: os.chmod(f"/proc/{place['victim']}/cwd", 0o777),
    lambda: os.chown('way/secret.txt', 65534, -1),
    lambda: os.utime(secret, (1, 1)),
    lambda: os.utime('way', (1, 1), follow_symlinks=True),
    lambda: os.setxattr(secret, 'user.x', b'x'),
    lambda: os.chmod('/dev/null', 0o666),
    lambda: os.fchmod(os.open('/dev/zero', os.O_RDWR), 0o666),
    lambda: os.utime('/dev/full', (1, 1)),
):
    try:
        change()
        print('REACHED')
    except OSError:
        pass
""",
        harm=_mode,
    ),
    Attack(
        title="change attributes of a file outside that may be read, or keep others from it",
        program="""
import fcntl
program = os.open('/usr/bin/env', os.O_RDONLY)
for change in (
    lambda: fcntl.ioctl(program, 0x40086602, fcntl.ioctl(program, 0x80086601, bytes(8))),
    lambda: fcntl.ioctl(program, 0x401C5820, fcntl.ioctl(program, 0x801C581F, bytes(28))),
    lambda: fcntl.fcntl(program, fcntl.F_SETLEASE, fcntl.F_RDLCK),
):
    try:
        change()
        print('REACHED')
    except OSError:
        pass
""",
        depends=True,
    ),
    Attack(
        title="read secrets in the environment",
        program="print('REACHED' if 'CANARY' in repr(os.environ) else 'nothing')",
        local=True,
    ),
    Attack(
        title="read the environment or memory of another process, by `/proc`",
        program="""
for pid in (place['victim'], os.getppid()):
    for name in ('environ', 'mem', 'maps'):
        try:
            with open(f"/proc/{pid}/{name}", 'rb') as file:
                if name == 'maps' or name == 'mem' or b'CANARY' in file.read():
                    print('REACHED' if pid == place['victim'] else '')
        except OSError:
            pass
""",
    ),
    Attack(
        title="change settings of the kernel, by `/proc`",
        program="""
for folder, _, files in os.walk('/proc'):
    for name in files:
        path = f'{folder}/{name}'
        own = path.split('/')[2].isdecimal() or not os.path.isfile(path)
        if not own and os.access(path, os.W_OK):
            sys.exit('REACHED')
""",
        depends=True,
    ),
    Attack(
        title="read what the kernel tells root only",
        program="""
for name in ('kcore', 'kmsg', 'kpagecount', 'kpageflags', 'slabinfo', 'timer_list', 'vmallocinfo'):
    try:
        descriptor = os.open(f'/proc/{name}', os.O_RDONLY | os.O_NONBLOCK)
        print('REACHED' if os.read(descriptor, 8) else '')
    except OSError:
        pass
""",
        depends=True,
    ),
    Attack(
        title="connect to a server on this machine, TCP",
        program="""
socket.create_connection(('127.0.0.1', place['tcp']), 2).sendall(b'hello')
print('REACHED')
""",
        harm=lambda place: place.heard(),
    ),
    Attack(
        title="send to a server on this machine, UDP",
        program="""
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', place['udp']))
""",
        harm=lambda place: place.heard(),
    ),
    Attack(
        title="connect to an abstract Unix socket",
        program="""
one = socket.socket(socket.AF_UNIX)
one.connect('\\0' + place['abstract'])
print('REACHED')
""",
    ),
    Attack(
        title="talk to a Unix socket outside the workspace",
        program="""
where = place['outside'] + '/socket'
for make in (
    lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0],
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0],
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0],
):
    try:
        make().sendto(b'hello', where)
    except OSError:
        pass
""",
        harm=lambda place: place.heard(),
    ),
    Attack(
        title="reach the host of a virtual machine (vsock)",
        program="socket.socket(40, socket.SOCK_STREAM); print('REACHED')",
        depends=True,
    ),
    Attack(
        title="signal another process",
        program="os.kill(place['victim'], 18); print('REACHED')",  # harmless, but a signal
    ),
    Attack(
        title="trace another process, or read its memory by a call",
        program="""
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, place['victim'], None, None) == 0:
    libc.ptrace(17, place['victim'], None, None)
    print('REACHED')
own, far = ctypes.create_string_buffer(8), ctypes.c_void_p(0x1000)
class Vector(ctypes.Structure):
    _fields_ = [('at', ctypes.c_void_p), ('size', ctypes.c_size_t)]
here, there = Vector(ctypes.addressof(own), 8), Vector(0x1000, 8)
libc.process_vm_readv(place['victim'], ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
print('REACHED' if ctypes.get_errno() == 14 else ctypes.get_errno())
""",
        depends=True,
    ),
    Attack(
        title="lower the limits or the priority of another process",
        program="""
import resource
for change in (
    lambda: resource.prlimit(place['victim'], resource.RLIMIT_CORE, (0, 0)),
    lambda: os.setpriority(os.PRIO_PROCESS, place['victim'], 19),
    lambda: os.sched_setaffinity(place['victim'], {0}),
):
    try:
        change()
        print('REACHED')
    except OSError:
        pass
""",
    ),
    Attack(
        title="gain rights by a setuid program",
        program="print('REACHED' if ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 0 else 'cannot')",
    ),
    Attack(
        title="leave a program that runs as its owner",
        program="""
for mode in (0o4755, 0o2755):
    for make in (
        lambda: os.chmod('attack.py', mode),
        lambda: os.fchmod(os.open('attack.py', os.O_RDONLY), mode),
        lambda: os.open(f'new{mode}', os.O_CREAT | os.O_WRONLY, mode),
        lambda: os.mknod(f'node{mode}', 0o100000 | mode),
    ):
        try:
            make()
            print('REACHED')
        except OSError:
            pass
""",
    ),
    Attack(
        title="make namespaces of its own",
        program="print('REACHED' if ctypes.CDLL(None).unshare(0x10020000) == 0 else 'cannot')",
        depends=True,
    ),
    Attack(
        title="put input into a terminal (TIOCSTI)",
        program="""
import fcntl, termios
terminal = os.open(place['terminal'], os.O_RDWR | os.O_NOCTTY)
fcntl.ioctl(terminal, termios.TIOCSTI, b'x')
print('REACHED')
""",
        depends=True,
    ),
    Attack(
        title="rewrite the sandbox's own program",
        program="os.close(os.open(place['own_file'], os.O_WRONLY | os.O_APPEND)); print('REACHED')",
        depends=True,
    ),
    Attack(
        title="fork without end",
        program="""
count = 0
try:
    while count < 300:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        count += 1
except OSError:
    pass
time.sleep(0.3)
print('REACHED' if count > 60 else count)
""",
        local=True,
        limits=SandboxLimits(processes=50),
    ),
    Attack(
        title="take memory without end, in one process",
        program="""
held = []
try:
    while len(held) < 60:
        held.append(bytearray(10_000_000))
except MemoryError:
    pass
print('REACHED' if len(held) == 60 else len(held))
""",
        local=True,
        limits=SandboxLimits(memory=200 * MB),
    ),
    Attack(
        title="take memory without end, in several processes or shared between them",
        program="""
import mmap
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(b'x' * 80_000_000)
        time.sleep(8)
        os._exit(0)
shared = mmap.mmap(-1, 300_000_000)
for at in range(0, 300_000_000, 4096):
    shared[at] = 1
time.sleep(3)
print('REACHED')
""",
        local=True,
        limits=SandboxLimits(memory=200 * MB),
    ),
    Attack(
        title="take memory without end, for tables of memory that is not used",
        program="""
import mmap
size = 200 << 30
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # that is not counted against what there is
at = libc.mmap(None, size, mmap.PROT_READ, flags, -1, 0)
libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), mmap.MADV_NOHUGEPAGE)
for page in range(0, size, 1 << 21):
    ctypes.string_at(at + page, 1)
time.sleep(1)
print('REACHED')
""",
        local=True,
        limits=SandboxLimits(memory=200 * MB),
    ),
    Attack(
        title="hide memory in files without a name, or in segments of System V",
        program="""
libc = ctypes.CDLL(None)
print('REACHED' if libc.memfd_create(b'x', 0) >= 0 or libc.shmget(0, 4096, 0o1600) >= 0 else '')
""",
    ),
    Attack(
        title="hide memory in shared mappings that nobody looks at, or in sockets",
        program="""
import mmap
shared = mmap.mmap(-1, 90_000_000)
for at in range(0, 90_000_000, 9_000_000):
    shared[at : at + 9_000_000] = b'x' * 9_000_000
    shared.madvise(mmap.MADV_DONTNEED)
time.sleep(0.5)
print('REACHED' if shared[9_000_000] == 120 else '')
""",
        bubblewrap=False,
        landlock=False,
        limits=SandboxLimits(memory=60 * MB),
    ),
    Attack(
        title="fill the workspace with one file",
        program="""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open('large', 'wb', 0) as file:
    for _ in range(30):
        file.write(bytes(1_000_000))
print('REACHED')
""",
        local=True,
        limits=SandboxLimits(file_size=10 * MB),
    ),
    Attack(
        title="fill the folder for temporary files",
        program="""
places = [os.environ['TMPDIR']]
if places == ['/tmp']:
    places.append('/dev/shm')
for folder in places:
    try:
        for n in range(30):
            with open(f'{folder}/{n}', 'wb', 0) as file:
                assert file.write(bytes(1_000_000)) == 1_000_000
        print('REACHED')
    except (OSError, AssertionError) as error:
        print(error)
""",
        landlock=False,
        limits=SandboxLimits(tmp_size=10 * MB),
    ),
    Attack(
        title="make files in the folders of the system",
        program="""
for folder in ('/', '/dev', '/etc', '/home', '/run', '/usr', '/var', '/var/tmp'):
    try:
        os.open(folder, os.O_TMPFILE | os.O_WRONLY)
        print('REACHED')
    except OSError:
        pass
""",
    ),
    Attack(
        title="stay as a daemon after the time is out",
        program="""
for _ in range(2):
    if os.fork():
        time.sleep(60)
    os.setsid()
time.sleep(60)
""",
        local=True,
        seconds=1,
        harm=lambda place: bool(running(str(place.workspace))),
    ),
)
