"""What the broker counts: plain numbers on the hot path, shown to Prometheus when asked."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.arrivals import Arrivals
from semel.broker.census_metrics import census_metrics
from semel.broker.cluster_metrics import cluster_metrics, journals_on_store
from semel.broker.families import counter, gauge, histogram, together
from semel.broker.lane_metrics import lane_metrics
from semel.broker.request_metrics import request_metrics
from semel.broker.topic_counts import TopicCounts, TopicSize
from semel.broker.topic_metrics import topic_metrics
from semel.durations import Durations
from semel.errors import InvalidProducerEpoch, ProducerFenced, RequestError
from semel.journal.seam import Journal
from semel.lane.lane import Mark
from semel.wire import apis

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from semel.broker.broker import Broker

FENCED = (ProducerFenced, InvalidProducerEpoch)


class Metrics:
    def __init__(self) -> None:
        self.requests: defaultdict[int, int] = defaultdict(int)
        self.requests_malformed = 0
        self.requests_failed = 0
        self.connections_accepted = 0
        self.connections_refused = 0
        self.sign_ins = 0
        self.sign_ins_refused = 0
        self.batches_refused = 0
        self.batches_duplicate = 0
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.requests_late = 0
        self.producers_fenced = 0
        self.transactions_committed = 0
        self.transactions_aborted = 0
        self.takeovers = {False: 0, True: 0}
        """Lanes that this broker has taken, by whether who led before may have left in between."""
        self.step_downs = 0
        self.commit_count = 0
        self.commit_seconds = 0.0
        self.retention_rounds = 0
        self.retention_round_seconds = 0.0
        """What the last one took."""
        self.retention_round_ended_ms = 0
        """By the wall clock; 0 if there was none."""
        self.retention_bytes_deleted = 0
        self.largest_topics: tuple[TopicSize, ...] = ()
        """As of the last round of retention, the largest first."""
        self.topic_bytes_sum = 0
        """Of all topics, as of then."""
        self.latencies: dict[int, Durations] = {}
        """By API: from when a request was read until its reply was handed to the kernel."""
        self.queue_seconds = 0.0
        """That requests waited to be decided, all together."""
        self.topics: dict[str, TopicCounts] = {}
        """Of those that were written to or read since the start, and exist."""
        self._topic_arrivals = Arrivals[tuple[str, TopicCounts]]()
        """The same, to be gone through while others come and go."""

    def of_topic(self, name: str) -> TopicCounts:
        counts = self.topics.get(name)
        if counts is None:
            counts = self.topics[name] = TopicCounts()
            counts.number = self._topic_arrivals.add((name, counts))
        return counts

    def counted_topics(self) -> Iterator[tuple[str, TopicCounts]]:
        """None that is forgotten when its turn comes."""
        for _, each in self._topic_arrivals.walk():
            yield each

    def forget_topic(self, name: str) -> None:
        counts = self.topics.pop(name, None)
        if counts is not None:
            self._topic_arrivals.remove(counts.number)

    def counted(self, refusal: RequestError) -> RequestError:
        """Count a refusal that tells a producer that another has its place."""
        if isinstance(refusal, FENCED):
            self.producers_fenced += 1
        return refusal

    def transaction_aborted(self) -> None:
        self.transactions_aborted += 1

    def transaction_committed(self, mark: Mark) -> None:
        """Count a commit, and how long it takes until that is durable, which its client waits for
        as well: what nobody waits for must not be hurried by who only counts."""
        began_s = asyncio.get_running_loop().time()
        mark.lane.when_durable(mark.position, lambda: self.commit_decided(began_s))
        self.transactions_committed += 1

    def commit_decided(self, began_s: float) -> None:
        """It was begun then, by the time of the loop."""
        self.commit_count += 1
        self.commit_seconds += asyncio.get_running_loop().time() - began_s


class Collector:
    """Reads the numbers when Prometheus asks; nothing is kept twice."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def collect(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily

        broker = self._broker
        metrics, lanes = broker.metrics, broker.lanes.led
        journals = list(broker.journals.values())
        all_journals: list[Journal] = [*journals, *journals_on_store(broker)]

        requests = CounterMetricFamily("semel_requests", "Requests by API.", labels=["api"])
        for key, count in sorted(metrics.requests.items()):
            api = apis.lookup(key)
            requests.add_metric([api.name if api else str(key)], count)
        yield requests
        yield from request_metrics(metrics)
        syncs = CounterMetricFamily(
            "semel_journal_syncs", "Syncs of the journal by reason.", labels=["reason"]
        )
        sync_counts: Counter[str] = Counter()
        for journal in journals:
            sync_counts.update({str(each): count for each, count in journal.sync_counts.items()})
        for reason, count in sorted(sync_counts.items()):
            syncs.add_metric([reason], count)
        yield syncs
        yield histogram(
            "semel_journal_sync_seconds",
            "How long syncs of the journal took.",
            together(journal.sync_durations for journal in journals),
        )

        yield counter("semel_records_in", "Records that were stored.", metrics.records_in)
        yield counter("semel_bytes_in", "Bytes of stored batches.", metrics.bytes_in)
        yield counter("semel_bytes_out", "Bytes of fetched batches.", metrics.bytes_out)
        yield counter(
            "semel_batches_duplicate",
            "Retries that were not stored again.",
            metrics.batches_duplicate,
        )
        yield counter("semel_batches_refused", "Batches refused.", metrics.batches_refused)
        yield counter(
            "semel_requests_malformed",
            "Connections closed for what they sent.",
            metrics.requests_malformed,
        )
        yield counter(
            "semel_requests_failed",
            "Connections closed because of an error in the broker.",
            metrics.requests_failed,
        )
        yield counter(
            "semel_connections_accepted", "Connections accepted.", metrics.connections_accepted
        )
        yield counter(
            "semel_connections_refused",
            "Connections over a limit, or without the TLS that was asked for.",
            metrics.connections_refused,
        )
        for name, about, count in (
            ("semel_sign_ins", "Clients that have signed in.", metrics.sign_ins),
            ("semel_sign_ins_refused", "Sign-ins that were refused.", metrics.sign_ins_refused),
        ):
            yield counter(name, about, count)
        throttled = CounterMetricFamily(
            "semel_throttled", "Requests and connections over a quota.", labels=["quota"]
        )
        for kind, count in broker.metering.throttled.items():
            throttled.add_metric([kind.value], count)
        yield throttled
        yield counter(
            "semel_requests_late",
            "Requests refused because their client had replaced the connection they came on.",
            metrics.requests_late,
        )
        yield counter(
            "semel_producers_fenced",
            "Requests refused because another producer has taken the place of theirs.",
            metrics.producers_fenced,
        )
        yield from _transactions(broker)
        yield counter(
            "semel_journal_frames",
            "Frames appended.",
            sum(journal.frames_appended for journal in all_journals),
        )
        yield counter(
            "semel_journal_bytes",
            "Bytes appended.",
            sum(journal.bytes_appended for journal in all_journals),
        )
        yield counter(
            "semel_journal_writes",
            "Writes of the journal.",
            sum(journal.writes for journal in journals),
        )
        yield counter(
            "semel_writes_refused",
            "Frames for which the journal had no room.",
            sum(journal.segments.refused_count for journal in journals)
            + sum(journal.refused_count for journal in journals_on_store(broker)),
        )
        yield gauge(
            "semel_journal_unused_bytes",
            "Bytes allocated for what is written next.",
            sum(journal.unused_bytes for journal in journals),
        )
        yield from _disk(broker)
        yield from topic_metrics(metrics, broker.census, broker.config.metrics_labels_max)
        yield from _tidying(broker)
        yield gauge(
            "semel_unreadable_partitions",
            "Partitions of which something was found damaged since the start.",
            broker.unreadable_count,
        )
        yield gauge("semel_connections", "Open connections.", broker.connection_count)
        yield gauge("semel_topics", "Topics.", len(broker.lanes.catalogue))
        yield gauge(
            "semel_partitions", "Partitions.", sum(lane.view.partition_count for lane in lanes)
        )
        yield gauge(
            "semel_journal_unsynced_bytes",
            "Bytes appended that a power loss would take.",
            sum(journal.end - journal.durable for journal in all_journals),
        )
        if broker.census is not None:
            yield from census_metrics(broker.census, broker.config.metrics_labels_max)
        if broker.is_shared:
            yield from cluster_metrics(broker)
        yield from lane_metrics(broker)


def _disk(broker: "Broker") -> Iterator["Metric"]:
    total_bytes, free_bytes = broker.disk_bytes()
    yield gauge("semel_disk_bytes", "Bytes of the disk.", total_bytes)
    yield gauge("semel_disk_free_bytes", "Bytes that the disk has left.", free_bytes)
    yield gauge("semel_folder_bytes", "Bytes that the data folder takes.", broker.folder_bytes())
    yield gauge(
        "semel_journal_stored_bytes",
        "Bytes of the journal's segments, with those allocated for what is written next.",
        sum(journal.stored_bytes for journal in list(broker.journals.values())),
    )
    lanes = broker.lanes.led
    yield gauge(
        "semel_volume_bytes",
        "Bytes of volumes.",
        sum(lane.settling.volume_bytes for lane in lanes),
    )
    yield gauge("semel_volumes", "Volumes.", sum(lane.settling.volume_count for lane in lanes))


def _tidying(broker: "Broker") -> Iterator["Metric"]:
    """What retention, settling and compaction have done."""
    metrics, lanes = broker.metrics, broker.lanes.led
    yield counter("semel_retention_rounds", "Rounds of retention.", metrics.retention_rounds)
    yield gauge(
        "semel_retention_round_seconds",
        "What the last round of retention took, with settling and compaction.",
        metrics.retention_round_seconds,
    )
    yield gauge(
        "semel_retention_round_ended_timestamp_seconds",
        "When the last round of retention ended; 0 if there was none yet.",
        metrics.retention_round_ended_ms / 1000,
    )
    yield counter(
        "semel_retention_deleted_bytes",
        "Bytes of batches that topics did not keep.",
        metrics.retention_bytes_deleted,
    )
    yield counter(
        "semel_removed_bytes",
        "Bytes of segments and volumes that were removed.",
        sum(lane.settling.bytes_removed for lane in lanes),
    )
    yield counter(
        "semel_settling_volumes",
        "Volumes made of segments and of other volumes.",
        sum(lane.settling.volumes_made for lane in lanes),
    )
    yield counter(
        "semel_settling_written_bytes",
        "Bytes of the volumes that were made.",
        sum(lane.settling.bytes_settled for lane in lanes),
    )
    yield counter(
        "semel_compaction_passes",
        "Passes of compaction.",
        sum(lane.compacting.pass_count for lane in lanes),
    )
    yield counter(
        "semel_compaction_read_bytes",
        "Bytes of batches that passes of compaction have read.",
        sum(lane.compacting.bytes_read for lane in lanes),
    )
    yield counter(
        "semel_compaction_written_bytes",
        "Bytes that passes of compaction have written.",
        sum(lane.compacting.bytes_written for lane in lanes),
    )


def _transactions(broker: "Broker") -> Iterator["Metric"]:
    from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

    metrics = broker.metrics
    ended = CounterMetricFamily(
        "semel_transactions_ended", "Transactions that ended, by how.", labels=["how"]
    )
    ended.add_metric(["commit"], metrics.transactions_committed)
    ended.add_metric(["abort"], metrics.transactions_aborted)
    ended.add_metric(
        ["timeout"], sum(lane.duties.transactions_timed_out for lane in broker.lanes.led)
    )
    yield ended
    yield SummaryMetricFamily(
        "semel_commit_latency_seconds",
        "From the decision to commit a transaction until it is durable.",
        count_value=metrics.commit_count,
        sum_value=metrics.commit_seconds,
    )
    open_count = sum(lane.view.open_transaction_count for lane in broker.lanes.led)
    yield gauge("semel_transactions_open", "Transactions that are open.", open_count)
