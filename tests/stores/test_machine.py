"""Any calls in any order: every store gives the answers that the memory store gives."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from treadle import MemoryStore
from treadle.errors import ConversationNotFound, TreadleError
from treadle.journal import AnyEntry, InboxApplied, MessageAdded, RunEnded, RunResumed, RunSuspended
from treadle.messages import Image, Message
from treadle.ports.store import Head, Lease, Store
from treadle.stores.file import FileStore
from treadle.stores.sqlite import SQLiteStore
from treadle.testing import FakeClock
from treadle.testing.store_handles import AT, began, queued, said

PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, "image/png")
names = st.sampled_from(["a", "A", "a "])
runs = st.sampled_from(["r1", "r2", "r3"])
entries = st.one_of(
    st.builds(queued, st.sampled_from(["x", "\u2028\x00", "long " * 500])),
    st.builds(said, st.just("y")),
    st.builds(began, runs),
    st.just(MessageAdded(run_id="r", at=AT, message=Message.user(PICTURE))),
    st.just(InboxApplied(run_id="r", at=AT, ids=("x",))),
    st.just(RunSuspended(run_id="r1", at=AT, reason="human")),
    st.just(RunEnded(run_id="r1", at=AT, stop_reason="answer")),
    st.just(RunEnded(run_id="r1", at=AT, stop_reason="answer", path="b#1")),
    st.just(RunResumed(run_id="r1", at=AT)),
)
NOTHING = Lease("a", "nobody", 99, AT)


class Machine(RuleBasedStateMachine):
    """Two stores that are told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = FakeClock()
        self.known: Store = MemoryStore(clock=self.clock)
        self.store = self.opened(Path(self.folder.name))
        self.leases: list[Lease] = [NOTHING]
        self.digests = ["0" * 64, "../x"]

    def opened(self, folder: Path) -> Store:
        """Return the store that is compared."""
        return FileStore(folder, clock=self.clock)

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    def compare(self, call: Callable[[Store], Awaitable[Any]]) -> Any:
        """Return what both answer."""
        expected, found = (self.answer(call, store) for store in (self.known, self.store))
        assert found == expected
        return found

    def answer(self, call: Callable[[Store], Awaitable[Any]], store: Store) -> Any:
        """Return an answer, or the kind and words of an error."""

        async def called() -> Any:
            return await call(store)

        try:
            found = self.loop.run_until_complete(called())
        except TreadleError as error:
            return type(error), str(error)
        return list(found) if isinstance(found, list | tuple) else found  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any sequence

    def revision(self, name: str) -> int:
        """Return the revision of a conversation, or 0."""
        head = self.compare(lambda store: store.head(name))
        return 0 if isinstance(head, tuple) else head.revision

    @rule(name=names)
    def create(self, name: str) -> None:
        """Begin."""
        self.compare(lambda store: store.create(name))

    @rule(
        name=names,
        off=st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]),
        lease=st.integers(0, 50),
        batch=st.lists(entries, min_size=1, max_size=3),
    )
    def append(self, name: str, off: int, lease: int, batch: list[AnyEntry]) -> None:
        """Write, mostly at the right revision and as the newest owner."""
        known = [each for each in self.leases if each.conversation_id == name][-1:]
        fence = known[0].fence if known and lease < 45 else (lease % 4 or None)
        at = self.revision(name) + off
        kinds = [each for each in batch if each.__struct_config__.tag == "run.began"]
        one = [each for each in batch if each not in kinds[1:]]
        self.compare(lambda store: store.append(name, at, one, fence=fence))
        self.compare(lambda store: store.head(name))

    @rule(name=names, seconds=st.sampled_from([5.0, 60.0]), takes=st.booleans())
    def claim(self, name: str, seconds: float, takes: bool) -> None:
        """Take, also from another."""
        dead = self.leases[-1].fence if takes else None
        found = self.compare(lambda store: store.claim(name, "o", seconds, instead_of=dead))
        if isinstance(found[1], Lease):
            self.leases.append(found[1])

    @rule(
        name=names,
        off=st.sampled_from([0, 0, 0, 0, 1, -1]),
        batch=st.lists(entries, min_size=1, max_size=3),
    )
    def enter(self, name: str, off: int, batch: list[AnyEntry]) -> None:
        """Take with a batch, mostly as the conversation is."""

        async def entered(store: Store) -> tuple[Head, Lease]:
            known = None
            with suppress(ConversationNotFound):
                found = await store.head(name)
                known = replace(found, revision=found.revision + off)
            return await store.claim_and_append(name, "o", 5.0, batch, known=known)

        found = self.compare(entered)
        if isinstance(found[1], Lease):
            self.leases.append(found[1])
        self.compare(lambda store: store.head(name))

    @rule(which=st.integers(0, 50))
    def renew(self, which: int) -> None:
        """Keep longer."""
        lease = self.leases[-1 - which % min(4, len(self.leases))]
        self.compare(lambda store: store.renew(lease, 30))

    @rule(which=st.integers(0, 50))
    def release(self, which: int) -> None:
        """Let go."""
        lease = self.leases[-1 - which % min(4, len(self.leases))]
        self.compare(lambda store: store.release(lease))
        self.compare(lambda store: store.list())

    @rule(name=names, after=st.integers(0, 6))
    def read(self, name: str, after: int) -> None:
        """Read on."""
        self.compare(lambda store: store.read(name, after))

    @rule(run_id=runs)
    def find(self, run_id: str) -> None:
        """Find a run."""
        self.compare(lambda store: store.find(run_id))

    @rule(
        status=st.sampled_from([None, "new", "running", "paused", "settled"]),
        limit=st.integers(0, 2),
    )
    def listed(self, status: Any, limit: int) -> None:
        """List page by page."""
        page = self.compare(lambda store: store.list(status=status, limit=limit))
        if page:
            self.compare(lambda store: store.list(status=status, after=page[-1]))

    @rule(name=names, new=names, revision=st.integers(-1, 5))
    def fork(self, name: str, new: str, revision: int) -> None:
        """Copy."""
        self.compare(lambda store: store.fork(name, revision, new))
        self.compare(lambda store: store.read(new))

    @rule(name=names)
    def delete(self, name: str) -> None:
        """Forget."""
        self.compare(lambda store: store.delete(name))

    @rule(name=names, content=st.sampled_from([b"", b"\x00\xff", b"c" * 9000]))
    def put(self, name: str, content: bytes) -> None:
        """Keep content."""
        digest = self.compare(lambda store: store.put(name, content))
        if isinstance(digest, str):
            self.digests.append(digest)

    @rule(name=names, which=st.integers(0, 50))
    def get(self, name: str, which: int) -> None:
        """Fetch content."""
        digest = self.digests[-1 - which % len(self.digests)]
        self.compare(lambda store: store.get(name, digest))

    @rule(name=names, after=st.integers(0, 3))
    def wait(self, name: str, after: int) -> None:
        """Look whether there is more."""
        self.compare(lambda store: store.wait(name, after, 0))

    @rule(seconds=st.sampled_from([0.000_001, 1.0, 20.0]))
    def pass_time(self, seconds: float) -> None:
        """Let leases end."""
        self.clock.advance(seconds)

    @rule()
    def close(self) -> None:
        """Nothing of what is stored changes."""
        self.loop.run_until_complete(self.store.close())


class SQLiteMachine(Machine):
    """A file."""

    def opened(self, folder: Path) -> Store:
        return SQLiteStore(folder / "x.db", clock=self.clock)


class InMemoryMachine(Machine):
    """No file."""

    def opened(self, folder: Path) -> Store:
        return SQLiteStore(":memory:", clock=self.clock)


TestFile = Machine.TestCase
TestSQLite = SQLiteMachine.TestCase
TestInMemory = InMemoryMachine.TestCase
for machine in (TestFile, TestSQLite, TestInMemory):
    machine.settings = settings(
        max_examples=int(os.environ.get("TREADLE_EXAMPLES", "40")),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
del machine  # or it would be taken for one more test
