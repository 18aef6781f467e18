"""Keep conversations in Redis, 6.2 or newer, or in Valkey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from treadle.errors import StoreUnavailable
from treadle.journal import AnyEntry
from treadle.ports.store import (
    PLAIN,
    READER,
    Batch,
    ConversationStatus,
    Head,
    Lease,
    advanced,
)
from treadle.stores.codec import decode_batch, digest_of, digests_in, with_media
from treadle.stores.heads import (
    appended,
    claimed,
    entered,
    microseconds,
    moment,
    place,
    readable,
    undamaged,
)
from treadle.stores.moves import Move, move_of
from treadle.stores.redis_connections import Connections
from treadle.stores.refusals import (
    content_not_found,
    fork_gone,
    head_damaged,
    lease_lost,
    not_found,
    run_not_found,
    run_taken,
    taken,
    too_new,
)
from treadle.stores.waiting import Waiters

LOOKS = 20
"""How often a fork looks again at an original that became another one meanwhile."""
EQUAL = 16
"""How many more to ask for than a page has: those that changed in one microsecond."""


class RedisStore:
    """Conversations in Redis: `redis://:password@host:6379/0`, or `rediss://` for TLS.

    What is durable is up to the server: with `appendonly yes` and `appendfsync always` all that
    `append` returned survives power loss, with `everysec` the last second may be lost, without
    `appendonly` everything. A warning is logged where `appendonly` is off or keys may be evicted.
    Failing over to a replica may lose what had not reached it.

    Keys stand under `?prefix=` (`treadle:`). One step is one script over the keys of several
    conversations, so a Redis Cluster is not supported; a server with replicas is. Each event loop
    has up to `?pool_size=` (10) connections; other options go to redis-py. Safe to share between
    tasks, threads and event loops.
    """

    def __init__(self, url: str) -> None:
        self._connections = Connections(url)
        self._waiters = Waiters(self._revisions)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a store on the server at this URL; nothing is connected before its first use.

        Raises:
            ConfigError: the URL has an option that it cannot have.
        """
        return cls(url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connections.place!r})"

    async def close(self) -> None:
        """Let go of connections; what is used again opens again."""
        await self._connections.close()

    async def create(self, conversation_id: str) -> Head:
        """Begin a journal at revision 0; an existing one is left alone and its head returned."""
        return _head(await self._connections.call("create", conversation_id, PLAIN))

    async def head(self, conversation_id: str) -> Head:
        """Return the head, or raise `ConversationNotFound`."""
        found = await self._connections.call("head", conversation_id)
        if not found:
            raise not_found(conversation_id)
        return _head(found)

    async def append(
        self,
        conversation_id: str,
        expected_revision: int,
        entries: Sequence[AnyEntry],
        *,
        fence: int | None = None,
    ) -> int:
        """Write one batch and return its revision; see the port."""
        move = move_of(expected_revision, entries, fence)
        asked, batch = (move.fence, int(move.anybody), READER), _moving(move)
        outcome, *said = await self._connections.call(
            "append", conversation_id, *asked, 0, *batch, again=(*asked, 1, *batch)
        )
        if outcome == b"gone":
            raise not_found(conversation_id)
        if outcome == b"run":
            raise run_taken(said[0].decode())
        if outcome == b"refused":
            appended(_head(said[1]), expected_revision, entries, fence, moment(int(said[0])))
            raise AssertionError("the script and the rules disagree")
        self._waiters.notify(conversation_id, expected_revision + 1)
        return expected_revision + 1

    async def read(self, conversation_id: str, from_revision: int = 0) -> Sequence[Batch]:
        """Return the batches after `from_revision`, oldest first."""
        found = await self._batches(conversation_id, max(0, from_revision), -1)
        digests = sorted({digest for batch in found for digest in digests_in(batch.entries)})
        if not digests:
            return found
        media = await self._contents(conversation_id, digests)
        return [Batch(each.revision, with_media(each.entries, media)) for each in found]

    async def wait(self, conversation_id: str, after_revision: int, seconds: float) -> int:
        """Return the revision as soon as it is beyond `after_revision`, or after `seconds`."""
        return await self._waiters.wait(conversation_id, after_revision, seconds)

    async def find(self, run_id: str) -> str:
        """Return the ID of the conversation that the run is in, or raise `RunNotFound`."""
        found = await self._connections.call("find", "", run_id)
        if found is None:
            raise run_not_found(run_id)
        return found.decode()

    async def list(
        self,
        *,
        status: ConversationStatus | None = None,
        limit: int = 100,
        after: Head | None = None,
    ) -> Sequence[Head]:
        """Return heads, the most recently changed first (then by ID); `after` the last one seen."""
        key = "by_time" if status is None else f"by_status:{status}"
        lowest = "-inf" if after is None else str(-microseconds(after.updated_at))
        passed, size, found = 0, limit + EQUAL, list[Head]()
        while len(found) < limit:
            page = await self._connections.call("list", "", key, lowest, passed, size)
            heads = undamaged(page, _head)
            found += [head for head in heads if after is None or place(head) > place(after)]
            if len(page) < size:
                break
            passed += size
        return found[:limit]

    async def fork(self, conversation_id: str, revision: int, new_id: str) -> Head:
        """Copy a journal through `revision` under a new ID; see the port."""
        for _ in range(LOOKS):
            source = await self.head(conversation_id)
            readable(source)
            if not 0 <= revision <= source.revision:
                raise fork_gone(source, revision)
            head = await self._at(source, revision)
            outcome, *said = await self._connections.call(
                "fork",
                conversation_id,
                new_id,
                revision,
                microseconds(source.created_at),
                head.status,
                head.run_id or "",
                head.pending,
                head.reader,
            )
            if outcome == b"taken":
                raise taken(new_id)
            if outcome == b"done":
                return _head(said[0])
        raise StoreUnavailable(f"Conversation {conversation_id!r} changes too fast to copy it.")

    async def delete(self, conversation_id: str) -> None:
        """Forget a conversation; one that is not there is no error."""
        await self._connections.call("delete", conversation_id)
        self._waiters.notify(conversation_id, None)

    async def claim(
        self, conversation_id: str, owner: str, seconds: float, *, instead_of: int | None = None
    ) -> tuple[Head, Lease]:
        """Take the conversation, which begins here when there is none; see the port."""
        dead = -1 if instead_of is None else instead_of
        outcome, at, said = await self._connections.call(
            "claim", conversation_id, owner, round(seconds * 1e6), dead, READER
        )
        head = _head(said)
        if outcome == b"refused":
            claimed(head, owner, seconds, instead_of, moment(int(at)))
        if outcome == b"refused" or head.lease is None:
            raise AssertionError("the script and the rules disagree")
        return head, head.lease

    async def claim_and_append(
        self,
        conversation_id: str,
        owner: str,
        seconds: float,
        entries: Sequence[AnyEntry],
        *,
        known: Head | None,
    ) -> tuple[Head, Lease]:
        """Take the conversation and write its next batch, in one step; see the port."""
        move = move_of(known.revision if known else 0, entries, None)
        asked, batch = (owner, round(seconds * 1e6), READER), _moving(move, known)
        outcome, *said = await self._connections.call(
            "enter", conversation_id, *asked, 0, *batch, again=(*asked, 1, *batch)
        )
        if outcome == b"run":
            raise run_taken(said[0].decode())
        head = _head(said[1]) if said[1] else None
        if outcome == b"refused":
            entered(head, known, conversation_id, owner, seconds, entries, moment(int(said[0])))
        if outcome == b"refused" or head is None:
            raise AssertionError("the script and the rules disagree")
        self._waiters.notify(conversation_id, head.revision)
        let_go = Lease(conversation_id, owner, head.fence, head.updated_at)
        return head, head.lease or let_go

    async def renew(self, lease: Lease, seconds: float) -> Lease:
        """Keep it longer, or raise `LeaseLost`."""
        outcome, said = await self._connections.call(
            "keep", lease.conversation_id, lease.fence, round(seconds * 1e6)
        )
        if not said:
            raise not_found(lease.conversation_id)
        head = _head(said)
        if outcome == b"refused" or head.lease is None:
            raise lease_lost(head, lease.fence)
        return head.lease

    async def release(self, lease: Lease) -> None:
        """Let it go; a lease that is no longer held is no error."""
        await self._connections.call("keep", lease.conversation_id, lease.fence, "")

    async def put(self, conversation_id: str, content: bytes) -> str:
        """Keep content and return its SHA-256 in hex, or raise `ConversationNotFound`."""
        digest = digest_of(content)
        if not await self._connections.call("put", conversation_id, digest, content):
            raise not_found(conversation_id)
        return digest

    async def get(self, conversation_id: str, digest: str) -> bytes:
        """Return content by its digest, or raise `ConversationNotFound`."""
        found = await self._contents(conversation_id, [digest])
        if digest not in found:
            await self.head(conversation_id)
            raise content_not_found(conversation_id, digest)
        return found[digest]

    async def _batches(self, conversation_id: str, start: int, stop: int) -> list[Batch]:
        """Return batches, with digests for their media; places count from 0, `stop` is the last."""
        found = await self._connections.call("read", conversation_id, start, stop)
        if not found:
            raise not_found(conversation_id)
        if int(found[0]) > READER:
            raise too_new(conversation_id, int(found[0]))
        return [
            Batch(revision, decode_batch(batch, f"conversation {conversation_id!r}", revision))
            for revision, batch in enumerate(found[1], start + 1)
        ]

    async def _at(self, source: Head, revision: int) -> Head:
        """Return the head as it was at a revision."""
        if revision == source.revision:
            return source
        head = Head(conversation_id="", created_at=source.created_at, updated_at=source.updated_at)
        if revision:
            for each in await self._batches(source.conversation_id, 0, revision - 1):
                head = advanced(head, each.entries, source.updated_at)
        return head

    async def _contents(self, conversation_id: str, digests: Sequence[str]) -> dict[str, bytes]:
        found = await self._connections.call("get", conversation_id, *digests)
        return {
            digest: content
            for digest, content in zip(digests, found, strict=True)
            if content is not None
        }

    async def _revisions(self, conversation_ids: Sequence[str]) -> Mapping[str, int]:
        found = await self._connections.call("revisions", "", *conversation_ids)
        return {
            name: int(revision)
            for name, revision in zip(conversation_ids, found, strict=True)
            if revision is not None
        }


def _moving(move: Move, known: Head | None = None) -> list[Any]:
    """Return the values that tell scripts of a batch, from the seventh on."""
    return [
        move.expected,
        move.status or "",
        move.run_id or "",
        move.pending,
        int(move.ends),
        move.data,
        len(move.runs),
        "" if known is None else microseconds(known.created_at),
        move.reader,
        *move.runs,
        *(each for pair in move.media.items() for each in pair),
    ]


def _head(said: Sequence[bytes]) -> Head:
    """Return the head that a hash says, as names and values by turns; or raise `CorruptJournal`."""
    told = {
        said[i].decode(errors="replace"): said[i + 1].decode(errors="replace")
        for i in range(0, len(said), 2)
    }
    try:
        return _head_of(told)
    except (KeyError, OverflowError, ValueError) as error:
        raise head_damaged(told.get("id", "?"), error) from error


def _head_of(told: Mapping[str, str]) -> Head:
    name, fence, owner = told["id"], int(told["fence"]), told.get("owner")
    lease = None
    if owner is not None:
        lease = Lease(name, owner, fence, moment(int(told["expires_at"])))
    return Head(
        conversation_id=name,
        revision=int(told["revision"]),
        status=_status(told["status"]),
        run_id=told.get("run_id"),
        pending=int(told["pending"]),
        created_at=moment(int(told["created_at"])),
        updated_at=moment(int(told["updated_at"])),
        fence=fence,
        lease=lease,
        reader=int(told["reader"]),
    )


def _status(value: Any) -> ConversationStatus:
    return value
