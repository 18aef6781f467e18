"""What a command may take too much of: processes, memory, disk and time."""

from __future__ import annotations

from tests.sandboxes.attack import Attack
from tests.tools.builtin.left import running
from treadle.sandboxes import SandboxLimits

MB = 1_000_000

BOMBS = (
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
libc.shmat.restype = ctypes.c_void_p
size = 300_000_000

def files():
    file = os.memfd_create('x')
    for _ in range(0, size, size // 30):
        os.write(file, bytes(size // 30))

def segments():
    segment = libc.shmget(0, size, 0o1600)
    assert segment >= 0
    at = libc.shmat(segment, None, 0)
    ctypes.memset(at, 1, size)
    libc.shmdt(ctypes.c_void_p(at))
    libc.shmctl(segment, 0, None)

for hide in (files, segments):
    if os.fork() == 0:
        hide()
        os._exit(7)
    if os.waitstatus_to_exitcode(os.wait()[1]) == 7:
        sys.exit('REACHED')
""",
        limits=SandboxLimits(memory=200 * MB),
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
        docker_for_root=False,
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
