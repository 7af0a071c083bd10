"""Who comes in: clients by mechanisms, over TLS and without, with credentials that are right, wrong
or have expired."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from support.authority import Authority
from support.entering import CERTIFICATE, CLIENTS, OAUTHBEARER, Entering, comes_in
from support.key_server import key_server
from support.signing_in import USERS, Secured, secured
from support.tokens import tokens

USER, PASSWORD = next(iter(USERS.items()))
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = {"INNER": "SASL_PLAINTEXT", "OUTER": "SASL_SSL", "CERTIFIED": "SSL"}
WAYS = [
    *(("INNER", each) for each in (*SCRAM, OAUTHBEARER)),
    *(("OUTER", each) for each in (*SCRAM, "PLAIN", OAUTHBEARER)),
    ("CERTIFIED", CERTIFICATE),
]
RIGHT, WRONG, EXPIRED = "right", "wrong", "expired"
CASES = [
    (listener, mechanism, kind)
    for listener, mechanism in WAYS
    for kind in (RIGHT, WRONG, EXPIRED)
    # Passwords have no end.
    if kind != EXPIRED or mechanism in (OAUTHBEARER, CERTIFICATE)
]


class Place(NamedTuple):
    broker: Secured
    tokens: Mapping[str, str]
    certificates: Mapping[str, str]

    def way(self, listener: str, mechanism: str, kind: str) -> Entering:
        passwords = {RIGHT: PASSWORD, WRONG: "rose"}
        known = {OAUTHBEARER: self.tokens, CERTIFICATE: self.certificates}
        secret = known.get(mechanism, passwords)[kind]
        trusted = self.broker.authority.trusted
        protocol = PROTOCOLS[listener]
        return Entering(self.broker.at(listener), protocol, mechanism, secret, trusted, USER)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, others = tmp_path_factory.mktemp("provider"), tmp_path_factory.mktemp("others")
    signed, other_signed, authority = tokens(folder), tokens(others), Authority(folder)
    signed_by = {RIGHT: signed(), WRONG: other_signed(), EXPIRED: signed(exp=1_600_000_000)}
    with key_server(folder / "keys.json", authority.certificate("provider")) as provider:
        settings = {
            "signin.max.connections.per.ip": 200,
            "https.ca.location": authority.trusted,
            "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.expected.audience": "semel",
        }
        for listener in ("inner", "outer"):
            offered = [name for where, name in WAYS if where == listener.upper()]
            settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(offered)
        with secured(tmp_path_factory.mktemp("secured"), settings) as one:
            certificates = {
                RIGHT: one.authority.certificate("client"),
                WRONG: Authority(others).certificate("client"),
                EXPIRED: one.authority.certificate("expired", is_expired=True),
            }
            shown = {kind: str(file) for kind, file in certificates.items()}
            yield Place(one, signed_by, shown)


@pytest.mark.parametrize(("listener", "mechanism", "kind"), CASES)
@pytest.mark.parametrize("client", CLIENTS)
def test_who_has_the_right_credentials_comes_in_and_nobody_else(
    place: Place, client: str, listener: str, mechanism: str, kind: str
) -> None:
    assert comes_in(client, place.way(listener, mechanism, kind)) == (kind == RIGHT)
