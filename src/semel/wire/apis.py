"""The one table of what is served: ApiVersions, dispatch and COMPATIBILITY.md all come from it."""

from collections.abc import Callable, Generator, Iterator
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from semel.types import Buffer
from semel.wire.rights import NEEDED, Right

NEVER: Final = 2**15
"""The first flexible version of an API that has none."""

API_VERSIONS_KEY: Final = 18


class Api:
    """One request type, with the versions whose messages are known."""

    def __init__(
        self,
        key: int,
        name: str,
        module: str,
        versions: tuple[int, int],
        flexible: int,
        *,
        note: str = "",
        unserved: str = "",
        advertised_min: int | None = None,
        in_steps: bool = False,
        is_opaque: bool = False,
    ) -> None:
        self.key = key
        self.name = name
        self.module = module
        self.version_min, self.version_max = versions
        self.flexible_version_min = flexible
        # A client that asked for a version we lack must be able to read the
        # refusal, so this one reply never has a flexible header.
        self.flexible_reply_min = NEVER if key == API_VERSIONS_KEY else flexible
        self.note = note
        self.unserved = unserved
        """Why this broker does not answer it; empty if it does."""
        self.served = not unserved
        self.in_steps = in_steps
        """Its response tells of all there is of something, so that it is encoded in steps."""
        self._is_opaque = is_opaque
        if self.served and not is_opaque and key not in NEEDED:
            raise TypeError(f"{name} does not say which rights its requests need")
        self.rights: tuple[Right, ...] = NEEDED.get(key, ())
        """That its requests may need."""
        self.is_for_leader = key != API_VERSIONS_KEY and not is_opaque
        """Only who leads, or knows who does, can answer it."""
        self.advertised_version_min = self.version_min if advertised_min is None else advertised_min

    def __repr__(self) -> str:
        return f"<{self.name} {self.key}: {self.version_min}-{self.version_max}>"

    def request_header_version(self, version: int) -> int:
        return 2 if version >= self.flexible_version_min else 1

    def response_header_version(self, version: int) -> int:
        return 1 if version >= self.flexible_reply_min else 0

    @cached_property
    def messages(self) -> Any:
        """The module of this API's messages, imported at the first use to keep start-up short."""
        if self._is_opaque:
            return import_module("semel.wire.opaque")
        return import_module(f"semel.wire.messages.{self.module}")

    @cached_property
    def decode_request(self) -> Callable[[Buffer, int, int], tuple[Any, int]]:
        return self.messages.decode_request  # type: ignore[no-any-return]

    @cached_property
    def encode_request(self) -> Callable[[Any, int], list[Buffer]]:
        return self.messages.encode_request  # type: ignore[no-any-return]

    @cached_property
    def decode_response(self) -> Callable[[Buffer, int, int], tuple[Any, int]]:
        return self.messages.decode_response  # type: ignore[no-any-return]

    @cached_property
    def encode_response(self) -> Callable[[Any, int], list[Buffer]]:
        return self.messages.encode_response  # type: ignore[no-any-return]

    @cached_property
    def encode_response_in_steps(self) -> Callable[[Any, int], Generator[None, None, list[Buffer]]]:
        """If it is to be, between which others can have their turn."""
        return self.messages.encode_response_in_steps  # type: ignore[no-any-return]


NO_ACCESS_LISTS: Final = "SECURITY_DISABLED without `authorizer.class.name`"

APIS: Final[tuple[Api, ...]] = (
    Api(
        0,
        "Produce",
        "produce",
        (3, 13),
        9,
        advertised_min=0,
        note="0-2 are advertised, because librdkafka wants to see them (KAFKA-18659), and refused",
    ),
    Api(1, "Fetch", "fetch", (4, 18), 12),
    Api(2, "ListOffsets", "list_offsets", (1, 11), 6),
    Api(3, "Metadata", "metadata", (0, 13), 9, in_steps=True),
    Api(8, "OffsetCommit", "offset_commit", (2, 10), 8),
    Api(9, "OffsetFetch", "offset_fetch", (1, 10), 6),
    Api(10, "FindCoordinator", "find_coordinator", (0, 6), 3),
    Api(11, "JoinGroup", "join_group", (0, 9), 6),
    Api(12, "Heartbeat", "heartbeat", (0, 4), 4),
    Api(13, "LeaveGroup", "leave_group", (0, 5), 4),
    Api(14, "SyncGroup", "sync_group", (0, 5), 4),
    Api(15, "DescribeGroups", "describe_groups", (0, 6), 5),
    Api(16, "ListGroups", "list_groups", (0, 5), 3, in_steps=True),
    Api(17, "SaslHandshake", "sasl_handshake", (1, 1), NEVER),
    Api(18, "ApiVersions", "api_versions", (0, 4), 3),
    Api(19, "CreateTopics", "create_topics", (2, 7), 5),
    Api(20, "DeleteTopics", "delete_topics", (1, 6), 4),
    Api(21, "DeleteRecords", "delete_records", (0, 2), 2),
    Api(22, "InitProducerId", "init_producer_id", (0, 6), 2),
    Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", (2, 4), 4),
    Api(
        24,
        "AddPartitionsToTxn",
        "add_partitions_to_txn",
        (0, 3),
        3,
        note="4 and 5 are spoken between brokers",
    ),
    Api(25, "AddOffsetsToTxn", "add_offsets_to_txn", (0, 4), 3),
    Api(26, "EndTxn", "end_txn", (0, 5), 3),
    Api(27, "WriteTxnMarkers", "write_txn_markers", (1, 2), 1),
    Api(28, "TxnOffsetCommit", "txn_offset_commit", (0, 6), 3),
    Api(29, "DescribeAcls", "describe_acls", (1, 3), 2, note=NO_ACCESS_LISTS),
    Api(30, "CreateAcls", "create_acls", (1, 3), 2, note=NO_ACCESS_LISTS),
    Api(31, "DeleteAcls", "delete_acls", (1, 3), 2, note=NO_ACCESS_LISTS),
    Api(32, "DescribeConfigs", "describe_configs", (1, 4), 4),
    Api(33, "AlterConfigs", "alter_configs", (0, 2), 2),
    Api(35, "DescribeLogDirs", "describe_log_dirs", (1, 5), 2, in_steps=True),
    Api(36, "SaslAuthenticate", "sasl_authenticate", (0, 2), 2),
    Api(37, "CreatePartitions", "create_partitions", (0, 3), 2),
    Api(42, "DeleteGroups", "delete_groups", (0, 3), 2),
    Api(44, "IncrementalAlterConfigs", "incremental_alter_configs", (0, 1), 1),
    Api(
        46,
        "ListPartitionReassignments",
        "list_partition_reassignments",
        (0, 0),
        0,
        note="there are none",
    ),
    Api(47, "OffsetDelete", "offset_delete", (0, 0), NEVER),
    Api(48, "DescribeClientQuotas", "describe_client_quotas", (0, 1), 1),
    Api(49, "AlterClientQuotas", "alter_client_quotas", (0, 1), 1),
    Api(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", (0, 0), 0),
    Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials", (0, 0), 0),
    Api(
        55,
        "DescribeQuorum",
        "describe_quorum",
        (0, 2),
        0,
        note="of the node that decides about topics; offsets are bytes of its journal",
    ),
    Api(60, "DescribeCluster", "describe_cluster", (0, 2), 0),
    Api(61, "DescribeProducers", "describe_producers", (0, 0), 0, in_steps=True),
    Api(65, "DescribeTransactions", "describe_transactions", (0, 0), 0),
    Api(
        66,
        "ListTransactions",
        "list_transactions",
        (0, 1),
        0,
        in_steps=True,
        note="2 brings regular expressions of the client's, which could stop the broker",
    ),
    Api(74, "ListConfigResources", "list_config_resources", (0, 1), 0, in_steps=True),
    Api(75, "DescribeTopicPartitions", "describe_topic_partitions", (0, 0), 0),
)

BY_KEY: Final[dict[int, Api]] = {api.key: api for api in APIS}

NODE_CHALLENGE: Final = Api(
    20_000, "NodeChallenge", "node_challenge", (0, 0), NEVER, is_opaque=True
)
NODE_CALL: Final = Api(20_001, "NodeCall", "node_call", (0, 0), NEVER, is_opaque=True)
BETWEEN_NODES: Final[dict[int, Api]] = {api.key: api for api in (NODE_CHALLENGE, NODE_CALL)}
"""Not Kafka's, and far from its keys: what the nodes of a cluster say to each other. No client is
told of them."""


def lookup(key: int) -> Api | None:
    """The API with this key, whether it is served or only known to the client side."""
    return BY_KEY.get(key) or BETWEEN_NODES.get(key)


def served() -> Iterator[Api]:
    return (api for api in APIS if api.served)
