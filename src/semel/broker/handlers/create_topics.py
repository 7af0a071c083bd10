"""CreateTopics (api key 19), versions 2-7.

v4  -1 partitions or replicas mean the broker's default; v5  flexible encoding, and the answer
shows the settings; v7  topic ids
"""

from collections import Counter
from typing import TYPE_CHECKING

from semel.broker import topic_config
from semel.broker.answer import Answer, Call, Handled
from semel.broker.telling import Tells
from semel.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    JournalFull,
    RequestError,
    StorageError,
    TopicAuthorizationFailed,
)
from semel.lane.topics import CreateTopic
from semel.types import INTERNAL_TOPICS
from semel.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.wire.rights import CREATE_IN_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS

if TYPE_CHECKING:
    from semel.broker.broker import Broker

DEFAULT = -1


def create_topics(broker: "Broker", request: CreateTopicsRequest, call: Call) -> Handled:
    telling = broker.topics.telling
    if telling is not None and not telling.have_all_begun:
        return _once_all_have_begun(broker, telling, request, call)
    return broker.topics.once_heard(_created(broker, request, call))


async def _once_all_have_begun(
    broker: "Broker", telling: Tells, request: CreateTopicsRequest, call: Call
) -> Answer:
    await telling.until_all_have_begun()
    answer = _created(broker, request, call)
    await telling.until_heard()
    return answer


def _created(broker: "Broker", request: CreateTopicsRequest, call: Call) -> Answer:
    counts = Counter(topic.name for topic in request.topics)
    results = [
        _create(
            broker, topic, call, is_twice=counts[topic.name] > 1, only_check=request.validate_only
        )
        for topic in request.topics
    ]
    return Answer(CreateTopicsResponse(topics=results))


def _create(
    broker: "Broker", wanted: CreatableTopic, call: Call, *, is_twice: bool, only_check: bool
) -> CreatableTopicResult:
    try:
        if is_twice:
            raise InvalidRequest(f"topic {wanted.name!r} is named twice in one request")
        if not call.may_see(CREATE_IN_CLUSTER):
            call.require(CREATE_TOPIC, wanted.name)
        partition_count = _partition_count(broker, wanted)
        config = {entry.name: entry.value or "" for entry in wanted.configs}
        broker.topics.create(CreateTopic(wanted.name, partition_count, {}, only_check=True))
        topic_config.check(config, broker.batch_size_most)
        if wanted.name in INTERNAL_TOPICS:
            raise InvalidRequest(f"topic {wanted.name!r} is made by the broker when it is needed")
        lane = topic_config.pinned_lane(config)
        command = CreateTopic(wanted.name, partition_count, config, only_check, lane)
        topic_id = broker.topics.create(command)
    except RequestError as error:
        return CreatableTopicResult(
            wanted.name, error_code=error.code, error_message=str(error) or None
        )
    except JournalFull as error:
        return CreatableTopicResult(
            wanted.name, error_code=StorageError.code, error_message=str(error)
        )
    if not only_check:
        broker.tell_change(call.caller, "topic created", topic=wanted.name)
    if not call.may_see(DESCRIBE_TOPIC_CONFIGS, wanted.name):
        hidden = TopicAuthorizationFailed.code
        return CreatableTopicResult(
            wanted.name, topic_id, topic_config_error_code=hidden, configs=[]
        )
    return CreatableTopicResult(
        wanted.name,
        topic_id,
        num_partitions=partition_count,
        replication_factor=1,
        configs=_shown(broker, config),
    )


def _partition_count(broker: "Broker", wanted: CreatableTopic) -> int:
    if wanted.assignments:
        if wanted.num_partitions != DEFAULT or wanted.replication_factor != DEFAULT:
            raise InvalidRequest("replicas are assigned by hand and by number at once")
        if any(entry.name == topic_config.LANE for entry in wanted.configs):
            raise InvalidRequest(
                f"replicas are assigned by hand and by {topic_config.LANE} at once"
            )
        indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
        if indexes != list(range(len(indexes))):
            raise InvalidReplicaAssignment("partitions are not numbered from 0 without gaps")
        for assignment in wanted.assignments:
            node_id = broker.nodes.id_of_leader(assignment.partition_index % broker.lanes.count)
            if assignment.broker_ids != [node_id]:
                raise InvalidReplicaAssignment(
                    f"the only broker for partition {assignment.partition_index} is {node_id}"
                )
        return len(indexes)
    if wanted.replication_factor not in (DEFAULT, 1):
        raise InvalidReplicationFactor(
            f"replication factor {wanted.replication_factor}: a partition has one replica"
        )
    if wanted.num_partitions == DEFAULT:
        return broker.config.num_partitions
    return wanted.num_partitions


def _shown(broker: "Broker", config: dict[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(each.name, each.value, False, each.source.value)
        for each in topic_config.shown(config, broker.settings.layers)
    ]
