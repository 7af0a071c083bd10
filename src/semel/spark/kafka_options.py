"""Kafka's own settings as `kafka.` options: those that mean something here, and those that do not.

A job written for Spark's Kafka source may carry any of them. What only tunes Kafka's Java client
is taken, and said to have no effect; what contradicts how source and sink work is refused by name.
"""

from semel.client.connecting.security_settings import SECURITY_SETTINGS

USED = SECURITY_SETTINGS.keys() | {
    "bootstrap.servers",
    "client.id",
    "compression.type",
    "fetch.max.bytes",
    "isolation.level",
    "max.request.size",
    "request.timeout.ms",
    "transaction.timeout.ms",
}

_WITHOUT_EFFECT = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "delivery.timeout.ms",
        "enable.idempotence",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)

_CONVERTED = "columns are binary here, convert them with Spark's functions"
_MECHANISMS = "PLAIN, SCRAM and OAUTHBEARER are the mechanisms there are, without classes of Java's"
_PEM = "say a PEM file with ssl.keystore.location and ssl.key.location"
_TLS = "it is the TLS of Python and not of Java that is spoken"
_REJECTED = {
    "auto.offset.reset": "say startingOffsets",
    "enable.auto.commit": "Spark's checkpoint holds the offsets",
    "interceptor.classes": "they are Java classes, and change what is read",
    "key.deserializer": _CONVERTED,
    "key.serializer": _CONVERTED,
    "partitioner.class": "say partitioner, or the partition in a column",
    "partitioner.ignore.keys": "say the partition in a column",
    "sasl.client.callback.handler.class": _MECHANISMS,
    "sasl.kerberos.service.name": _MECHANISMS,
    "sasl.login.class": _MECHANISMS,
    "security.providers": _TLS,
    "ssl.cipher.suites": _TLS,
    "ssl.enabled.protocols": _TLS,
    "ssl.engine.factory.class": _TLS,
    "ssl.keymanager.algorithm": _TLS,
    "ssl.keystore.certificate.chain": _PEM,
    "ssl.keystore.key": _PEM,
    "ssl.protocol": _TLS,
    "ssl.provider": _TLS,
    "ssl.secure.random.implementation": _TLS,
    "ssl.trustmanager.algorithm": _TLS,
    "transaction.two.phase.commit.enable": "the sink prepares and commits by itself",
    "transactional.id": "say transactionalId",
    "value.deserializer": _CONVERTED,
    "value.serializer": _CONVERTED,
}

KAFKA_OPTIONS = frozenset(f"kafka.{name}" for name in USED | _WITHOUT_EFFECT)
REJECTED = {f"kafka.{name}": reason for name, reason in _REJECTED.items()} | _REJECTED
