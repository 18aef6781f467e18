"""What a command may try, and which back ends contain it: the table of the docs."""

from __future__ import annotations

import stat

from tests.sandboxes.attack import Attack, Place
from tests.sandboxes.bombs import BOMBS


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
        docker_for_root=False,
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
        docker_for_root=False,
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
        docker=False,
        docker_for_root=False,
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
        docker_for_root=False,
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
        docker=False,
        docker_for_root=False,
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
        docker=False,
        docker_for_root=False,
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
    *BOMBS,
)
