"""What each API needs, as a table: a request, the refusal of who lacks a right, and the rules with
which it is not refused. The names in it are of things that are there or not, as a test has it."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from semel.access.principal import Principal
from semel.access.rules import PatternType, Permission, Rule
from semel.records.records import Record, encode_batch
from semel.wire.messages.fetch import FetchPartition, FetchTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.rights import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE_IN_CLUSTER,
    CREATE_TOPIC,
    DELETE_GROUP,
    DELETE_IN_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_ID,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    IDEMPOTENT_WRITE,
    READ_GROUP,
    READ_TOPIC,
    WRITE_ID,
    WRITE_TOPIC,
    Operation,
    ResourceType,
    Right,
)
from support.raw_client import BY_MODULE

TOPIC, GROUP, ID = "orders", "biller", "payers"
NEW_TOPIC: Final = "newest"
TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, ID_REFUSED = 29, 30, 31, 53
REFUSALS: Final = {TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, ID_REFUSED}
UNKNOWN_ID: Final = 100
NAMES: Final = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLUSTER: CLUSTER_NAME,
    ResourceType.TRANSACTIONAL_ID: ID,
}
ANN: Final = Principal("User", "ann")
TOPIC_SETTINGS, BROKER_SETTINGS, GROUP_SETTINGS, METRICS_SETTINGS = 2, 4, 32, 16


class Case(NamedTuple):
    module: str
    version: int
    fields: dict[str, Any]
    refusal: int
    """Of who has no right at all."""
    enough: tuple[tuple[Right, ...], ...]
    """Rights with each of which it is not refused; without any of those together it is."""
    label: str = ""

    @property
    def request(self) -> Any:
        return request(self.module, **self.fields)

    def __str__(self) -> str:
        return f"{self.module}-v{self.version}{self.label and f'-{self.label}'}"


def request(module: str, **fields: Any) -> Any:
    """Of plain values; a new one each time, as handlers change what they are given."""
    messages = import_module(f"semel.wire.messages.{module}")
    kind: Any = getattr(messages, f"{BY_MODULE[module].name}Request")
    if module == "produce":
        return _produce(**fields)
    if module == "fetch":
        # Compiled messages do not tell what their lists are of.
        fields["topics"] = [_fetched(**topic) for topic in fields["topics"]]
    return msgspec.convert(fields, kind)


def _fetched(partitions: list[dict[str, Any]], **fields: Any) -> FetchTopic:
    return FetchTopic(partitions=[FetchPartition(**each) for each in partitions], **fields)


def _produce(
    acks: int, topic_data: list[dict[str, Any]], transactional_id: str | None = None
) -> ProduceRequest:
    """Records are of a type that cannot be converted."""
    topics = [
        TopicProduceData(
            topic.get("name", ""),
            [PartitionProduceData(**data) for data in topic["partition_data"]],
            topic.get("topic_id", bytes(16)),
        )
        for topic in topic_data
    ]
    return ProduceRequest(transactional_id, acks, 30_000, topics)


def rule(right: Right, name: str | None = None, *, who: Principal = ANN) -> Rule:
    kind, operation = right
    its_name = NAMES[kind] if name is None else name
    return Rule(kind, its_name, PatternType.LITERAL, who, "*", operation, Permission.ALLOW)


def rules(rights: Iterable[Right], name: str | None = None) -> tuple[Rule, ...]:
    return tuple(
        rule(each, name if each.resource_type is ResourceType.TOPIC else None) for each in rights
    )


def codes(response: Any) -> Iterator[int]:
    """Every error code, wherever it stands."""
    if isinstance(response, msgspec.Struct):
        for name in response.__struct_fields__:
            value = getattr(response, name)
            if name.endswith("error_code"):
                yield value
            else:
                yield from codes(value)
    elif isinstance(response, list):
        for each in response:
            yield from codes(each)


def batch(**fields: Any) -> bytes:
    return encode_batch([Record(None, b"value", 1_000)], **fields)


def _topics(**partition: Any) -> list[dict[str, Any]]:
    return [{"name": TOPIC, "partitions": [partition]}]


_IN_TRANSACTION: Final = batch(
    producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
)
_PRODUCE: Final = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch()}]}
_PRODUCE_IN: Final = {"name": TOPIC, "partition_data": [{"index": 0, "records": _IN_TRANSACTION}]}
_FETCH: Final = {"topic": TOPIC, "partitions": [{"partition": 0, "partition_max_bytes": 1_000}]}
_MARKER: Final = {"producer_id": 9, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
_RULE: Final = {
    "resource_type": 2,
    "resource_name": "t",
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_FILTER: Final = {
    "resource_type_filter": 2,
    "resource_name_filter": "nothing",
    "operation": 1,
    "permission_type": 1,
}
_UPSERTION: Final = {
    "name": "bob",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"p" * 32,
}


def _settings(kind: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name}]}


def _incremental(kind: int, name: str) -> dict[str, Any]:
    entry = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    resource = {"resource_type": kind, "resource_name": name, "configs": [entry]}
    return {"resources": [resource], "validate_only": True}


_COMMIT: Final = {
    "group_id": GROUP,
    "generation_id_or_member_epoch": -1,
    "topics": _topics(partition_index=0, committed_offset=1),
}
_TXN_COMMIT: Final = {
    "transactional_id": ID,
    "group_id": GROUP,
    "producer_id": 1,
    "producer_epoch": 0,
    "topics": _topics(partition_index=0, committed_offset=1),
}
_OF_TXN: Final = {"transactional_id": ID, "producer_id": 1, "producer_epoch": 0}
_ADD: Final = {
    "v3_and_below_transactional_id": ID,
    "v3_and_below_producer_id": 1,
    "v3_and_below_producer_epoch": 0,
    "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
}

CASES: Final = [
    Case("produce", 9, {"acks": -1, "topic_data": [_PRODUCE]}, 29, ((WRITE_TOPIC,),)),
    Case(
        "produce",
        11,
        {"transactional_id": ID, "acks": -1, "topic_data": [_PRODUCE_IN]},
        53,
        ((WRITE_ID, WRITE_TOPIC),),
        "in a transaction",
    ),
    Case("fetch", 12, {"topics": [_FETCH]}, 29, ((READ_TOPIC,),)),
    Case(
        "list_offsets",
        7,
        {"topics": _topics(partition_index=0, timestamp=-1)},
        29,
        ((DESCRIBE_TOPIC,), (READ_TOPIC,), (WRITE_TOPIC,), (DELETE_TOPIC,), (ALTER_TOPIC,)),
    ),
    Case("metadata", 9, {"topics": [{"name": TOPIC}]}, 29, ((DESCRIBE_TOPIC,),)),
    Case(
        "metadata",
        9,
        {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": True},
        29,
        ((DESCRIBE_TOPIC, CREATE_TOPIC), (DESCRIBE_TOPIC, CREATE_IN_CLUSTER)),
        "creating",
    ),
    Case("offset_commit", 8, _COMMIT, 30, ((READ_GROUP, READ_TOPIC),)),
    Case(
        "offset_fetch",
        7,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        30,
        ((DESCRIBE_GROUP, DESCRIBE_TOPIC), (READ_GROUP, READ_TOPIC)),
    ),
    Case(
        "offset_fetch",
        8,
        {
            "groups": [
                {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
            ]
        },
        30,
        ((DESCRIBE_GROUP, DESCRIBE_TOPIC), (DELETE_GROUP, DESCRIBE_TOPIC)),
    ),
    Case("offset_fetch", 8, {"groups": [{"group_id": GROUP}]}, 30, ((DESCRIBE_GROUP,),), "all"),
    Case("find_coordinator", 3, {"key": GROUP, "key_type": 0}, 30, ((DESCRIBE_GROUP,),), "group"),
    Case("find_coordinator", 3, {"key": ID, "key_type": 1}, 53, ((DESCRIBE_ID,), (WRITE_ID,))),
    Case(
        "find_coordinator",
        4,
        {"key_type": 0, "coordinator_keys": [GROUP]},
        30,
        ((DESCRIBE_GROUP,), (READ_GROUP,)),
    ),
    Case(
        "join_group",
        7,
        {
            "group_id": GROUP,
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 6_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        30,
        ((READ_GROUP,),),
    ),
    Case(
        "sync_group",
        5,
        {
            "group_id": GROUP,
            "generation_id": 1,
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
        30,
        ((READ_GROUP,),),
    ),
    Case("heartbeat", 4, {"group_id": GROUP, "generation_id": 1}, 30, ((READ_GROUP,),)),
    Case("leave_group", 5, {"group_id": GROUP, "members": []}, 30, ((READ_GROUP,),)),
    Case("leave_group", 2, {"group_id": GROUP, "member_id": "m"}, 30, ((READ_GROUP,),)),
    Case("describe_groups", 5, {"groups": [GROUP]}, 30, ((DESCRIBE_GROUP,),)),
    Case("describe_groups", 6, {"groups": [GROUP]}, 30, ((DESCRIBE_GROUP,),)),
    Case("delete_groups", 2, {"groups_names": [GROUP]}, 30, ((DELETE_GROUP,),)),
    Case(
        "offset_delete",
        0,
        {"group_id": GROUP, "topics": _topics(partition_index=0)},
        30,
        ((DELETE_GROUP, READ_TOPIC),),
    ),
    Case(
        "create_topics",
        7,
        {
            "topics": [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 10_000,
        },
        29,
        ((CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS), (CREATE_IN_CLUSTER, DESCRIBE_TOPIC_CONFIGS)),
    ),
    Case(
        "delete_topics",
        6,
        {"topics": [{"name": TOPIC}], "timeout_ms": 10_000},
        29,
        ((DELETE_TOPIC,),),
    ),
    Case(
        "delete_topics",
        5,
        {"topic_names": [TOPIC], "timeout_ms": 10_000},
        29,
        ((DELETE_IN_CLUSTER,),),
    ),
    Case(
        "delete_records",
        2,
        {"topics": _topics(partition_index=0, offset=0)},
        29,
        ((DELETE_TOPIC,),),
    ),
    Case("init_producer_id", 4, {"transactional_id": ID}, 53, ((WRITE_ID,),)),
    Case(
        "init_producer_id",
        4,
        {"transactional_id": None},
        31,
        ((IDEMPOTENT_WRITE,), (WRITE_TOPIC,)),
        "idempotent",
    ),
    Case(
        "offset_for_leader_epoch",
        4,
        {"topics": [{"topic": TOPIC, "partitions": [{"partition": 0}]}]},
        29,
        ((DESCRIBE_TOPIC,), (CLUSTER_ACTION,)),
    ),
    Case("add_partitions_to_txn", 3, _ADD, 53, ((WRITE_ID, WRITE_TOPIC),)),
    Case("add_offsets_to_txn", 3, _OF_TXN | {"group_id": GROUP}, 53, ((WRITE_ID, READ_GROUP),)),
    Case("end_txn", 3, _OF_TXN | {"committed": True}, 53, ((WRITE_ID,),)),
    Case("write_txn_markers", 1, {"markers": [_MARKER]}, 31, ((ALTER_CLUSTER,), (CLUSTER_ACTION,))),
    Case("txn_offset_commit", 3, _TXN_COMMIT, 53, ((WRITE_ID, READ_GROUP, READ_TOPIC),)),
    Case("describe_acls", 3, _FILTER, 31, ((DESCRIBE_CLUSTER,), (ALTER_CLUSTER,))),
    Case("create_acls", 3, {"creations": [_RULE]}, 31, ((ALTER_CLUSTER,),)),
    Case("delete_acls", 3, {"filters": [_FILTER]}, 31, ((ALTER_CLUSTER,),)),
    Case(
        "describe_configs",
        4,
        _settings(TOPIC_SETTINGS, TOPIC),
        29,
        ((DESCRIBE_TOPIC_CONFIGS,), (ALTER_TOPIC_CONFIGS,)),
        "topic",
    ),
    Case(
        "describe_configs",
        4,
        _settings(BROKER_SETTINGS, "1"),
        31,
        ((DESCRIBE_CLUSTER_CONFIGS,), (ALTER_CLUSTER_CONFIGS,)),
        "broker",
    ),
    Case(
        "describe_configs",
        4,
        _settings(GROUP_SETTINGS, GROUP),
        30,
        ((DESCRIBE_GROUP_CONFIGS,),),
        "group",
    ),
    Case(
        "describe_configs",
        4,
        _settings(METRICS_SETTINGS, "m"),
        31,
        ((DESCRIBE_CLUSTER_CONFIGS,),),
        "metrics",
    ),
    Case(
        "alter_configs",
        2,
        _settings(TOPIC_SETTINGS, TOPIC) | {"validate_only": True},
        29,
        ((ALTER_TOPIC_CONFIGS,),),
        "topic",
    ),
    Case(
        "alter_configs",
        2,
        _settings(BROKER_SETTINGS, "1") | {"validate_only": True},
        31,
        ((ALTER_CLUSTER_CONFIGS,),),
        "broker",
    ),
    Case(
        "incremental_alter_configs",
        1,
        _incremental(TOPIC_SETTINGS, TOPIC),
        29,
        ((ALTER_TOPIC_CONFIGS,),),
        "topic",
    ),
    Case(
        "incremental_alter_configs",
        1,
        _incremental(BROKER_SETTINGS, "1"),
        31,
        ((ALTER_CLUSTER_CONFIGS,),),
        "broker",
    ),
    Case(
        "incremental_alter_configs",
        1,
        _incremental(GROUP_SETTINGS, GROUP),
        30,
        ((ALTER_GROUP_CONFIGS,),),
        "group",
    ),
    Case("describe_log_dirs", 4, {"topics": None}, 31, ((DESCRIBE_CLUSTER,),)),
    Case(
        "create_partitions",
        3,
        {"topics": [{"name": TOPIC, "count": 3}], "validate_only": True},
        29,
        ((ALTER_TOPIC,),),
    ),
    Case(
        "list_partition_reassignments",
        0,
        {"timeout_ms": 100, "topics": None},
        31,
        ((DESCRIBE_CLUSTER,),),
    ),
    Case("describe_client_quotas", 1, {"strict": False}, 31, ((DESCRIBE_CLUSTER_CONFIGS,),)),
    Case(
        "alter_client_quotas",
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "someone"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e9}],
                }
            ],
            "validate_only": True,
        },
        31,
        ((ALTER_CLUSTER_CONFIGS,),),
    ),
    Case(
        "describe_user_scram_credentials",
        0,
        {"users": [{"name": "bob"}]},
        31,
        ((DESCRIBE_CLUSTER,),),
    ),
    Case("alter_user_scram_credentials", 0, {"upsertions": [_UPSERTION]}, 31, ((ALTER_CLUSTER,),)),
    Case(
        "describe_quorum",
        1,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]},
        31,
        ((DESCRIBE_CLUSTER,),),
    ),
    Case(
        "describe_producers",
        0,
        {"topics": [{"name": TOPIC, "partition_indexes": [0]}]},
        29,
        ((READ_TOPIC,),),
    ),
    Case("describe_transactions", 0, {"transactional_ids": [ID]}, 53, ((DESCRIBE_ID,),)),
    Case("list_config_resources", 0, {}, 31, ((DESCRIBE_CLUSTER_CONFIGS,),)),
    Case("describe_topic_partitions", 0, {"topics": [{"name": TOPIC}]}, 29, ((DESCRIBE_TOPIC,),)),
]
"""Requests that are refused by a code."""

LEFT_OUT: Final = frozenset({"list_groups", "list_transactions", "describe_cluster"})
"""APIs that refuse nobody, and leave out what may not be seen."""

DESCRIBING: Final = frozenset({Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS})
