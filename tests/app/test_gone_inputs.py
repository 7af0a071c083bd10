"""A topic that is read is deleted in the middle of a cycle, and made anew later."""

import asyncio
from collections.abc import Iterator

import pytest

from semel import Admin, App, Record
from semel.app.outbox import Outbox
from semel.app.progress import Counts, ListenerState
from semel.testing import Broker
from support.looking import until
from support.topics import create, fill, values

OLD, NEW = [b"1", b"2", b"3"], [b"4", b"5", b"6", b"7"]


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker(settings={"auto.create.topics.enable": "false"}) as broker:
        for topic in ("in", "out", "dead"):
            create(broker.bootstrap_servers, topic, 1)
        fill(broker.bootstrap_servers, "in", OLD)
        yield broker.bootstrap_servers


def delete(servers: str) -> None:
    with Admin(servers) as admin:
        admin.delete_topics(["in"])


def make_anew(servers: str) -> None:
    create(servers, "in", 1)
    fill(servers, "in", NEW)


@pytest.mark.parametrize("dead_letters", [None, "dead"])
@pytest.mark.parametrize("is_transactional", [True, False])
@pytest.mark.parametrize("records_max", [1, 500])
def test_a_listener_goes_on_when_a_deleted_topic_is_made_anew(
    servers: str, is_transactional: bool, dead_letters: str | None, records_max: int
) -> None:
    app = App(servers, block_timeout_ms=300)
    deleted: list[bytes] = []

    def copy(record: Record, out: Outbox) -> None:
        if not deleted and record.value == b"2":
            delete(servers)
            deleted.append(b"in")
        out.send("out", value=record.value)

    function = app.transactional(copy) if is_transactional else copy
    app.listener("in", group="g", retries=0, dead_letters=dead_letters, records_max=records_max)(
        function
    )

    async def scenario() -> None:
        async with app.running() as run:

            def counts() -> Counts:
                return run.counts()["copy"]

            await until(lambda: bool(deleted))
            if is_transactional:
                await until(lambda: "the topic does not exist" in (counts().trouble or ""))
            await asyncio.to_thread(make_anew, servers)
            await until(lambda: counts().lag == 0 and values(servers, "out")[-1:] == NEW[-1:])
            await run.idle()
            assert counts().state is not ListenerState.FAILED

    asyncio.run(scenario())
    written = values(servers, "out")
    assert written[-len(NEW) :] == NEW
    assert set(written[: -len(NEW)]) <= set(OLD)
    assert values(servers, "dead") == []
