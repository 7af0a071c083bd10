"""What the clients of a run do in which the clocks go wrong: they live by their timeouts."""

from random import Random

from semel.types import TopicPartition
from semel.verify.members import Member
from semel.verify.population import Work
from semel.verify.producers import ACKS_ALL
from semel.verify.slow_transactions import SlowTransactions
from semel.verify.workload import Ordeal, Workload, producing

TOPICS = {"shared": 3, "output": 2}
SHARED = [TopicPartition("shared", index) for index in range(TOPICS["shared"])]
OUTPUTS = [TopicPartition("output", index) for index in range(TOPICS["output"])]
GROUP = "watch"


def _cast(rng: Random) -> dict[str, Work]:
    works: dict[str, Work] = {}
    for number in range(2):
        works[f"producer-{number}"] = producing(rng, SHARED, ACKS_ALL)
    for number in range(rng.randint(1, 3)):
        instance_id = f"instance-{number}" if rng.random() < 0.4 else None
        works[f"member-{number}"] = _membership(instance_id)
    for number in range(2):
        works[f"slow-{number}"] = lambda client: SlowTransactions(client, OUTPUTS).run()
    return works


def _membership(instance_id: str | None) -> Work:
    return lambda client: Member(client, GROUP, SHARED, instance_id).run()


CLOCKS = Workload(
    TOPICS,
    GROUP,
    SHARED,
    _cast,
    rest_s=5.0,
    is_read_at_rest=True,
    ordeal=Ordeal(
        ("clock jumps", "dead clients", "freezes", "kills", "power losses", "stops"),
        duration_s=(1.0, 6.0),
        pause_s_mean=0.4,
    ),
)
