"""The end of a run: everything is read whole at rest, and read again after one more power loss."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from semel.errors import SemelError
from semel.types import TopicPartition
from semel.verify.administrator import topic_seen
from semel.verify.client import Client
from semel.verify.history import NotServing, Stored, TopicMade, WholeLog
from semel.verify.link import Link, Lost
from semel.verify.machine import Machine
from semel.verify.offsets import committed_offset
from semel.verify.producers import ACKS_ONE, PlainProducer
from semel.verify.readers import fetch_request, partitions_of, stored_records, term_end_of
from semel.verify.workload import Workload
from semel.wire.messages import describe_groups, fetch

PATIENCE_S = 30.0
SESSION_S_MAX = 60.0
"""The longest session that a member has asked for."""


class Finale:
    def __init__(self, client: Client, machine: Machine, workload: Workload) -> None:
        self._workload = workload
        self._client = client
        self._machine = machine

    async def run(self) -> None:
        await self._within_patience(self._say_last_words())
        await asyncio.sleep(self._workload.rest_s)
        if self._workload.is_read_at_rest:
            await self._within_patience(self._read_all(0))
            await self._within_patience(
                self._see_members_go(), "members that did not go", SESSION_S_MAX
            )
        else:
            self._machine.lose_power()
            await self._within_patience(self._read_all(0))
        self._machine.lose_power()
        await self._within_patience(self._read_all(1))
        await self._machine.stop()
        await self._within_patience(self._read_all(2))

    async def _within_patience(
        self, work: Coroutine[Any, Any, None], complaint: str = "nothing", more_s: float = 0.0
    ) -> None:
        working = self._client.process.start(work)
        patience_s = PATIENCE_S + more_s
        try:
            async with asyncio.timeout(patience_s):
                await working
        except TimeoutError:
            self._client.history.note(NotServing(f"{complaint} in {patience_s} s"))
        except (AssertionError, SemelError) as error:
            self._client.history.note(NotServing(repr(error)))

    async def _say_last_words(self) -> None:
        """A record that no one waits for must come to rest as well."""
        await self._machine.serving()
        await PlainProducer(self._client, self._workload.partitions, ACKS_ONE, 1).run()

    async def _see_members_go(self) -> None:
        """Sessions end also of those who are dead and could not say so."""
        while True:
            if await self._insist(self._member_count) == 0:
                return
            await asyncio.sleep(0.5)

    async def _member_count(self, link: Link) -> int:
        request = describe_groups.DescribeGroupsRequest([self._workload.group])
        (group,) = (await link.ask(describe_groups, request)).message.groups
        return len(group.members)

    async def _read_all(self, round_number: int) -> None:
        await self._machine.serving()
        for partition in self._workload.partitions:
            whole = await self._insist(lambda link: self._read(link, partition, round_number))  # noqa: B023
            self._client.history.note(whole)
        await self._insist(self._look_around)

    async def _insist(self, session: Callable[[Link], Coroutine[Any, Any, Any]]) -> Any:
        while True:
            link = await self._client.link()
            try:
                return await session(link)
            except Lost:
                await self._client.back_off()
            finally:
                link.drop()

    async def _read(self, link: Link, partition: TopicPartition, round_number: int) -> WholeLog:
        position = 0
        records: list[Stored] = []
        while True:
            reply = await link.ask(fetch, fetch_request({partition: position}))
            ((_, data),) = partitions_of(reply.message)
            assert data.error_code == 0, f"{partition} at {position}: error {data.error_code}"
            found = stored_records(data, position)
            records += found
            if not found:
                assert position == data.high_watermark, f"{partition} ends at {position}"
                return WholeLog(
                    round_number,
                    partition,
                    tuple(records),
                    data.high_watermark,
                    data.last_stable_offset,
                )
            position = found[-1].offset + 1

    async def _look_around(self, link: Link) -> None:
        history = self._client.history
        for topic in dict.fromkeys(made.topic for made in history.all(TopicMade)):
            history.note(await topic_seen(link, topic))
        for partition in self._workload.partitions:
            if partition in self._workload.shared:
                history.note(await committed_offset(link, self._workload.group, partition))
            for term in range(link.term + 1):
                history.note(await term_end_of(link, partition, term))
