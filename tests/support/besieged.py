"""A broker, workers, or nodes with TLS between them, all with access control: as somebody finds
them who attacks their one listener beyond this machine."""

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    UserScramCredentialDeletion,
)

from semel.testing import Broker, Cluster
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.authority import Authority
from support.raw_client import RawClient
from support.secured_in_thread import At, sign_in
from support.signing_in import ports_of
from support.tokens import tokens

HOMES: Final = ("broker", "workers", "nodes")
PATIENCE_S: Final = 60.0
ROOT, PASSWORD = "root", "tulip"
USERS: Final = (ROOT, "ana", "bo", "eve", "kim")
NODE_LISTENERS: Final = ("OPEN", "CLIENTS", "INSIDE")
SIGN_IN_MS: Final = 1_500


class TlsClient(RawClient):
    """A client by hand, over TLS."""

    def __init__(self, at: At, context: ssl.SSLContext) -> None:
        super().__init__(at)
        self._socket = context.wrap_socket(self._socket, server_hostname="localhost")


class Besieged:
    def __init__(self, ports: Sequence[int], folder: Path, authority: Authority) -> None:
        self.ports = ports
        """One of each process that serves clients."""
        self.trusted = authority.trusted
        self.context = ssl.create_default_context(cafile=str(authority.trusted))
        self.signed = tokens(folder)
        self.admin = AdminClient(self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """By which librdkafka comes in as who may do everything."""
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.ports),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.trusted),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": ROOT,
            "sasl.password": PASSWORD,
        }

    def stranger(self, port: int) -> TlsClient:
        return TlsClient(At(port), self.context)

    def user(self, name: str, port: int) -> TlsClient:
        """Somebody who has signed in."""
        client = self.stranger(port)
        until = time.monotonic() + PATIENCE_S
        # Users of a file are made soon after the start.
        while sign_in(client, name, PASSWORD).error_code:
            assert time.monotonic() < until
            client = self.stranger(port)
        return client

    def create_topic(self, name: str) -> int:
        """The port at which its partition is led."""
        (made,) = self.admin.create_topics([NewTopic(name, 1)]).values()
        made.result(PATIENCE_S)
        with self.user(ROOT, self.ports[0]) as root:
            asked = MetadataRequest([MetadataRequestTopic(name=name)])
            until = time.monotonic() + PATIENCE_S
            while (found := root.call("metadata", 12, asked)).topics[0].error_code:
                assert time.monotonic() < until
            leader = found.topics[0].partitions[0].leader_id
            return int(next(each.port for each in found.brokers if each.node_id == leader))

    def allow(
        self,
        user: str,
        operation: AclOperation,
        name: str,
        kind: ResourceType = ResourceType.TOPIC,
    ) -> None:
        rule = AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        (made,) = self.admin.create_acls([rule]).values()
        made.result(PATIENCE_S)

    def take_from(self, user: str) -> None:
        """All rights."""
        every = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{user}",
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        (gone,) = self.admin.delete_acls([every]).values()
        assert gone.result(PATIENCE_S)

    def delete_user(self, name: str) -> None:
        known = self.admin.describe_user_scram_credentials([name])[name].result(PATIENCE_S)
        mechanisms = [each.mechanism for each in known.scram_credential_infos]
        gone = [UserScramCredentialDeletion(name, each) for each in mechanisms]
        self.admin.alter_user_scram_credentials(gone)[name].result(PATIENCE_S)


@contextmanager
def besieged(home: str, folder: Path) -> Iterator[Besieged]:
    authority = Authority(folder)
    users = folder / "users.toml"
    users.write_text("".join(f'{name} = "{PASSWORD}"\n' for name in USERS))
    users.chmod(0o600)
    mechanisms = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"
    settings: dict[str, object] = {
        "listener.security.protocol.map": "OPEN:PLAINTEXT,CLIENTS:SASL_SSL,INSIDE:SSL",
        "ssl.keystore.location": authority.certificate("broker"),
        "ssl.truststore.location": authority.trusted,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ROOT}",
        "initial.users": users,
        "signin.timeout.ms": SIGN_IN_MS,
        "signin.max.connections.per.ip": 200,
        "listener.name.clients.sasl.enabled.mechanisms": mechanisms,
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": "us",
        "sasl.oauthbearer.expected.audience": "semel",
    }
    with ExitStack() as stack:
        if home == "nodes":
            inside = {
                # Who leads is asked at the first.
                "listeners": ",".join(f"{each}://127.0.0.1:0" for each in NODE_LISTENERS),
                "inter.broker.listener.name": "INSIDE",
                "listener.name.inside.ssl.client.auth": "required",
            }
            steering = {
                "security.protocol": "SSL",
                "ssl.ca.location": str(authority.trusted),
                "ssl.certificate.location": str(folder / "broker.pem"),
            }
            cluster = Cluster(settings={**settings, **inside}, lanes=2, security=steering)
            nodes = stack.enter_context(cluster).nodes.values()
            ports = [ports_of(node.ready)["CLIENTS"] for node in nodes]
        else:
            count = 2 if home == "workers" else 1
            listen = ["--listen", "CLIENTS://127.0.0.1:0"]
            broker = Broker(workers=count, settings=settings, arguments=listen)
            first = ports_of(stack.enter_context(broker).ready)["CLIENTS"]
            ports = [first + index for index in range(count)]
        yield Besieged(ports, folder, authority)
