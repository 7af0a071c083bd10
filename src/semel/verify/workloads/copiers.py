"""Copiers read an input, write to outputs, and commit where they are in the same transaction.

Some are one incarnation of one transactional id after the other. Others take part in a group and
have an id of their own in each life; then it is the generation that fences them (KIP-447).
"""

from collections.abc import Sequence

from semel.errors import (
    IllegalGeneration,
    MemberIdRequired,
    OffsetOutOfRange,
    RebalanceInProgress,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from semel.types import TopicPartition
from semel.verify.history import Committed, CommitTried, OffsetSeen, OffsetsWritten, Span
from semel.verify.workloads.client import Client, Lost
from semel.verify.workloads.incarnation import (
    TV1,
    Fatal,
    Versions,
    code_of,
)
from semel.verify.workloads.producers import Contents, plain_contents
from semel.verify.workloads.readers import (
    EARLIEST,
    fetch_request,
    list_request,
    partitions_of,
    stored_records,
)
from semel.verify.workloads.transactional_producers import (
    CHANGED_ITS_MIND,
    Errands,
    Habits,
    TransactionalProducer,
)
from semel.verify.world.network import OfGroup
from semel.wire.messages import (
    add_offsets_to_txn,
    fetch,
    join_group,
    list_offsets,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)

SESSION_TIMEOUT_MS = 60_000
REBALANCE_TIMEOUT_MS = 300
REBALANCE_SINCE = 1
"""Before, the session's timeout was also that of a rebalance."""
PATIENCE_S = 2.5
STABLE = Versions(7, 8)
GENERATION_SINCE = 3
OUT_OF_DATE = {IllegalGeneration.code, UnknownMemberId.code, RebalanceInProgress.code}
INPUTS_MAX = 6
FETCHED_BYTES_MAX = 2_000


class Copier(TransactionalProducer):
    def __init__(
        self,
        client: Client,
        habits: Habits,
        source: TopicPartition,
        partitions: Sequence[TopicPartition],
        errands: Errands,
        group: str,
        *,
        is_member: bool,
        contents: Contents = plain_contents,
    ) -> None:
        super().__init__(client, habits, partitions, errands, contents=contents)
        self._source = source
        self._group = group
        self._coordinator = OfGroup(group)
        self._is_member = is_member
        self._life_count = 0
        self._membership = (-1, "")
        """Generation and member id."""
        self._offset = -1

    def _transactional_id(self) -> str:
        self._life_count += 1
        if self._is_member:
            return f"{self._client.name}.{self._life_count}"
        return self._habits.transactional_id

    async def _live(self) -> None:
        if self._is_member:
            await self._join()
        await super()._live()

    async def _fill(self, attempt: str, added: set[TopicPartition]) -> int:
        start = await self._committed_offset()
        inputs = await self._inputs(start)
        if not inputs:
            await self._client.think()
            return CHANGED_ITS_MIND
        plan = self._plan(attempt, {}, self._rng.randint(1, 3))
        self._offset = inputs[-1] + 1
        code = await self._write(attempt, plan, added)
        return code or await self._send_offsets(attempt, tuple(inputs), added)

    async def _commit(self, attempt: str) -> int:
        code = await super()._commit(attempt)
        if code == 0:
            now_s = self._client.now_s()
            self._history.note(
                Committed(Span(now_s, now_s), self._group, self._source, self._offset)
            )
        return code

    async def _committed_offset(self) -> int:
        index = self._source.partition
        topic = self._source.topic
        messages = offset_fetch
        request = messages.OffsetFetchRequest(
            groups=[
                messages.OffsetFetchRequestGroup(
                    self._group, topics=[messages.OffsetFetchRequestTopics(topic, [index])]
                )
            ],
            group_id=self._group,
            topics=[messages.OffsetFetchRequestTopic(topic, [index])],
            require_stable=True,
        )
        while True:
            reply = await self._incarnation.ask(self._coordinator, messages, request, STABLE)
            assert reply is not None
            answer: offset_fetch.OffsetFetchResponse = reply.message
            found = (answer.groups[0] if answer.groups else answer).topics[0].partitions[0]
            if found.error_code == 0:
                break
            self._incarnation.expect(
                "-", "OffsetFetch", found.error_code, UnstableOffsetCommit.code
            )
            await self._client.back_off()
        self._history.note(
            OffsetSeen(
                reply.span,
                self._group,
                self._source,
                found.committed_offset,
                is_stable=True,
            )
        )
        return max(found.committed_offset, 0)

    async def _inputs(self, start: int) -> list[int]:
        reply = await self._incarnation.ask(
            self._source, fetch, fetch_request({self._source: start}, max_bytes=FETCHED_BYTES_MAX)
        )
        assert reply is not None
        ((_, data),) = partitions_of(reply.message)
        if data.error_code == OffsetOutOfRange.code:
            start = await self._source_start()
            return await self._inputs(start)
        if data.error_code:
            raise Fatal
        records, _ = stored_records(data, start)
        found = [stored.offset for stored in records]
        return found[: self._rng.randint(1, INPUTS_MAX)]

    async def _source_start(self) -> int:
        reply = await self._incarnation.ask(
            self._source, list_offsets, list_request(self._source, EARLIEST)
        )
        assert reply is not None
        (found,) = reply.message.topics[0].partitions
        if found.error_code:
            raise Fatal
        start: int = found.offset
        return start

    async def _send_offsets(
        self, attempt: str, inputs: tuple[int, ...], added: set[TopicPartition]
    ) -> int:
        incarnation = self._incarnation
        if incarnation.dialect is TV1:
            joining = add_offsets_to_txn.AddOffsetsToTxnRequest(
                incarnation.transactional_id,
                incarnation.producer_id,
                incarnation.producer_epoch,
                self._group,
            )
            reply = await incarnation.insist(incarnation.coordinator, add_offsets_to_txn, joining)
            incarnation.expect(attempt, "AddOffsetsToTxn", reply.message.error_code)
            if reply.message.error_code:
                return int(reply.message.error_code)
            added.add(self._source)
        self._history.note(OffsetsWritten(attempt, self._group, self._source, self._offset, inputs))
        self._history.note(CommitTried(self._group, self._source, self._offset))
        versions = incarnation.dialect.commit_offsets
        if self._is_member:
            versions = versions._replace(least=max(versions.least, GENERATION_SINCE))
        reply = await incarnation.insist(
            self._coordinator, txn_offset_commit, self._offsets_request(), versions
        )
        code = code_of(reply.message)
        others = OUT_OF_DATE if self._is_member else ()
        incarnation.expect(attempt, "TxnOffsetCommit", code, *others)
        return code

    def _offsets_request(self) -> txn_offset_commit.TxnOffsetCommitRequest:
        incarnation, messages = self._incarnation, txn_offset_commit
        offset = messages.TxnOffsetCommitRequestPartition(self._source.partition, self._offset)
        return messages.TxnOffsetCommitRequest(
            incarnation.transactional_id,
            self._group,
            incarnation.producer_id,
            incarnation.producer_epoch,
            *self._membership,
            topics=[messages.TxnOffsetCommitRequestTopic(self._source.topic, [offset])],
        )

    async def _abort(self, attempt: str, code: int, *, began: bool) -> None:
        await super()._abort(attempt, code, began=began)
        if code in OUT_OF_DATE:
            raise Fatal

    # Membership

    async def _join(self) -> None:
        """The only member of a generation, or nobody."""
        member_id = ""
        while True:
            request = join_group.JoinGroupRequest(
                self._group,
                SESSION_TIMEOUT_MS,
                REBALANCE_TIMEOUT_MS,
                member_id,
                protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol("copying", b"")],
            )
            connection = await self._incarnation.connection(self._coordinator)
            try:
                reply = await connection.ask(
                    join_group, request, version_min=REBALANCE_SINCE, patience_s=PATIENCE_S
                )
                joined: join_group.JoinGroupResponse = reply.message
                member_id = joined.member_id or member_id
                if joined.error_code == 0:
                    break
            except Lost as why:
                self._incarnation.lost(self._coordinator, connection, why)
            else:
                if joined.error_code == UnknownMemberId.code:
                    member_id = ""
                if joined.error_code == MemberIdRequired.code:
                    continue
            await self._client.back_off()
            if self._client.is_replaced:
                raise Fatal
        await self._sync(joined)

    async def _sync(self, joined: join_group.JoinGroupResponse) -> None:
        is_leader = joined.leader == joined.member_id
        request = sync_group.SyncGroupRequest(
            self._group,
            joined.generation_id,
            joined.member_id,
            assignments=[sync_group.SyncGroupRequestAssignment(joined.leader, b"all")]
            if is_leader
            else [],
            protocol_type="consumer",
            protocol_name="copying",
        )
        connection = await self._incarnation.connection(self._coordinator)
        try:
            synced = (await connection.ask(sync_group, request, patience_s=PATIENCE_S)).message
        except Lost:
            raise Fatal from None
        if synced.error_code or synced.assignment != b"all":
            raise Fatal
        self._membership = (joined.generation_id, joined.member_id)
