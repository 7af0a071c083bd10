"""What the clients of a run with transactions do."""

from random import Random

from semel.types import TopicPartition
from semel.verify.committed_readers import CommittedReader
from semel.verify.copiers import Copier
from semel.verify.disturbers import Deleter, Operator
from semel.verify.offsets import Auditor
from semel.verify.population import RIVALLED, Work
from semel.verify.producers import ACKS_ALL
from semel.verify.readers import Reader
from semel.verify.transactional_producers import Errands, TransactionalProducer, habits_of
from semel.verify.workload import Workload, producing

INPUT = TopicPartition("input", 0)
OUTPUTS = [TopicPartition("output", index) for index in range(3)]
GROUP = "copiers"


def _cast(rng: Random) -> dict[str, Work]:
    works: dict[str, Work] = {}
    works["producer-input"] = producing(rng, [INPUT], ACKS_ALL)
    if rng.random() < 0.5:
        works["producer-plain"] = producing(rng, OUTPUTS, ACKS_ALL)
    brief: list[TopicPartition] = []
    for name in ("a", "b"):
        works[RIVALLED + name] = _transactions(rng, name, brief)
    if rng.random() < 0.3:
        works["deleter"] = lambda client: Deleter(client, brief).run()
    works[RIVALLED + "copies"] = _copies(rng)
    works["operator"] = lambda client: Operator(client, OUTPUTS).run()
    works["reader"] = lambda client: Reader(client, [INPUT, *OUTPUTS]).run()
    for number in range(2):
        works[f"reader-committed-{number}"] = lambda client: CommittedReader(
            client, [INPUT, *OUTPUTS]
        ).run()
    works["auditor"] = lambda client: Auditor(client, GROUP, [INPUT]).run()
    return works


def _transactions(rng: Random, name: str, brief: list[TopicPartition]) -> Work:
    habits = habits_of(rng, name)
    partitions = rng.sample(OUTPUTS, rng.randint(1, 3))
    errands = Errands(rng.randint(8, 25))
    return lambda client: TransactionalProducer(client, habits, partitions, errands, brief).run()


def _copies(rng: Random) -> Work:
    habits = habits_of(rng, "copies")
    errands = Errands(rng.randint(8, 20))
    is_member = rng.random() < 0.5
    return lambda client: Copier(
        client, habits, INPUT, OUTPUTS, errands, GROUP, is_member=is_member
    ).run()


TRANSACTIONS = Workload(
    {"input": 1, "output": 3}, GROUP, [INPUT], _cast, rest_s=5.0, is_read_at_rest=True
)
