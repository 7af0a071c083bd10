"""Counts the results: as they grow, for the progress bar, and at the end for the truth."""

import json
from collections import Counter
from typing import NamedTuple

import semel
from examples.demo.orders import truth_about, values_of
from examples.demo.topics import Topics
from semel.client.cluster.blocking import ClientOptions, Connected
from semel.client.cluster.offsets import Isolation, ends_of
from semel.types import TopicPartition


class Outcome(NamedTuple):
    """The results that every reader of committed records finds, beside those that must be there."""

    orders_in: int
    results_out: int
    lost: int
    duplicated: int
    wrong: int
    revenue_cents: int
    revenue_due_cents: int

    @property
    def is_exact(self) -> bool:
        return (
            self.lost == self.duplicated == self.wrong == 0
            and self.results_out == self.orders_in
            and self.revenue_cents == self.revenue_due_cents
        )


def outcome(topics: Topics, bootstrap_servers: str) -> Outcome:
    truth = truth_about(topics.orders, bootstrap_servers)
    found: Counter[str] = Counter()
    wrong = 0
    for result in values_of(topics.enriched, bootstrap_servers):
        found[result["order"]] += 1
        wrong += truth.amounts_cents.get(result["order"]) != result["amount_cents"]
    revenue_cents: Counter[str] = Counter()
    for added in values_of(topics.revenue, bootstrap_servers):
        revenue_cents[added["category"]] += added["revenue_cents"]
    wrong += sum(revenue_cents[category] < due for category, due in truth.revenue_cents.items())
    return Outcome(
        orders_in=len(truth.amounts_cents),
        results_out=found.total(),
        lost=len(truth.amounts_cents.keys() - found.keys()),
        duplicated=found.total() - len(found),
        wrong=wrong,
        revenue_cents=revenue_cents.total(),
        revenue_due_cents=sum(truth.revenue_cents.values()),
    )


class Tally:
    """Follows the enriched orders while they are written."""

    def __init__(self, topics: Topics, bootstrap_servers: str, partition_count: int) -> None:
        self._topic = topics.enriched
        self._places = [TopicPartition(self._topic, number) for number in range(partition_count)]
        self._bootstrap_servers = bootstrap_servers
        self._next = dict.fromkeys(range(partition_count), 0)
        self._connected = Connected(ClientOptions(bootstrap_servers))
        self._orders: set[str] = set()
        self.results = 0

    @property
    def distinct(self) -> int:
        return len(self._orders)

    def log_end(self) -> int:
        """How much is in the log, committed or not."""
        return sum(self._ends(Isolation.READ_UNCOMMITTED).values())

    def update(self) -> bool:
        """Count what has been committed since; whether there was any."""
        ends = self._ends(Isolation.READ_COMMITTED)
        if ends == self._next:
            return False
        records = semel.read(
            self._topic,
            bootstrap_servers=self._bootstrap_servers,
            start=self._next,
            end=ends,
            columns=["value"],
        )
        self._next = ends
        self.results += records.num_rows
        for value in records.column("value").to_pylist():
            self._orders.add(json.loads(value)["order"])
        return True

    def close(self) -> None:
        self._connected.close()

    def _ends(self, isolation: Isolation) -> dict[int, int]:
        found = self._connected.run(ends_of(self._connected.cluster, self._places, isolation))
        return {place.partition: end for place, end in found.items()}
