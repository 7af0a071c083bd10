"""A broker on a store, and the node that steers it: what both are made of, and what is asked of the
store before anybody is served."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from semel.broker.broker import Broker, Shared, Storage
from semel.broker.cluster_metrics import rates
from semel.broker.config import BrokerConfig
from semel.broker.lane_settings import lane_settings
from semel.broker.lane_volumes import LaneVolumes
from semel.broker.listening import ForOthers
from semel.broker.neighbour import NOT_ADVERTISED, Advertised
from semel.cluster.format import ClusterFormat
from semel.cluster.messages import About
from semel.cluster.node import Node, slot_settings
from semel.cluster.opening import ClusterSettings, opened
from semel.cluster.silence import Timing
from semel.errors import ConfigError
from semel.lane.leader import Leader
from semel.store.counting import Counted
from semel.store.disk_cache import DiskCache
from semel.store.probe import probe
from semel.store.seam import Store
from semel.store.settings import shown
from semel.world import Clock, Randomness

EVERYWHERE = frozenset({"0.0.0.0", "::"})
UNKNOWN = (-1, -1)
"""Bytes of a disk that is none; DescribeLogDirs has it so."""


class BrokerOnStore:
    def __init__(
        self,
        broker: Broker,
        store: Store,
        cluster: ClusterFormat,
        timing: Timing,
        config: BrokerConfig,
        randomness: Randomness,
    ) -> None:
        self.broker = broker
        self._store = store
        self._cluster = cluster
        self._timing = timing
        self._config = config
        self._randomness = randomness
        self._version = metadata.version("semel")

    def node(self, listening: ForOthers) -> Node:
        """Whose life is the broker's. Raises ConfigError if nobody could be told where it is."""
        config, (told, for_nodes, connect) = self._config, listening
        for each in told:
            if each.host in EVERYWHERE:
                by = "--advertise" if len(told) == 1 else f"advertised.listeners={each.name}://…"
                raise ConfigError(
                    f"{each.host} is no address at which others find this node: name one with {by}"
                )
        (own,) = (each for each in told if each.name == for_nodes)
        self.broker.host.hear_nodes_at(for_nodes, has_others=len(told) > 1)
        return Node(
            self._store,
            self._cluster,
            Leader(
                self._cluster.cluster_id,
                config.node_id,
                own.host,
                own.port,
                listeners=tuple((*each,) for each in told),
            ),
            self._timing,
            lane_settings(config),
            self._randomness,
            self.broker.host,
            connect,
            self._about,
        )

    def _about(self) -> About:
        return About(self._version, rates(self.broker))


@asynccontextmanager
async def joined(
    settings: ClusterSettings,
    config: BrokerConfig,
    clock: Clock,
    randomness: Randomness,
    folder: Path,
    cache: DiskCache | None = None,
    advertised: Advertised = NOT_ADVERTISED,
) -> AsyncIterator[BrokerOnStore]:
    """A broker that leads nothing yet, and may do in this folder what it likes. Raises
    ClusterRefused, NewerFormat, UnfitStore, StoreAway, StoreRefused and ConfigError."""
    async with opened(settings) as (store, cluster):
        await probe(store, randomness)
        config = replace(
            config,
            offsets_topic_num_partitions=cluster.offsets_partition_count,
            transaction_state_log_num_partitions=cluster.transactions_partition_count,
        )
        timing = Timing(
            config.cluster_detection_ms / 1000,
            config.store_flush_interval_ms,
            config.store_linger_ms,
        )
        broker = Broker(
            config,
            (),
            Storage(shown(settings.store.url), lambda: UNKNOWN),
            clock,
            randomness,
            Shared(
                cluster.cluster_id,
                slot_settings(timing).limits,
                timing.detection_s,
                store=_counted_from_now(store),
                volumes=LaneVolumes(store, folder, randomness, cache),
            ),
            advertised=advertised,
        )
        yield BrokerOnStore(broker, store, cluster, timing, config, randomness)


def _counted_from_now(store: Store) -> Counted | None:
    """A probe asks for much, once."""
    if not isinstance(store, Counted):
        return None
    for each in store.counted:
        each.start()
    return store
