"""A broker with every way to come in, and credentials for each that are right, wrong or expired."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from support.authority import Authority
from support.entering import CERTIFICATE, OAUTHBEARER, Entering
from support.key_server import key_server
from support.signing_in import USERS, Secured, secured
from support.tokens import tokens

USER, PASSWORD = next(iter(USERS.items()))
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS: Final = {"INNER": "SASL_PLAINTEXT", "OUTER": "SASL_SSL", "CERTIFIED": "SSL"}
_WAYS: Final = [
    *(("INNER", each) for each in (*_SCRAM, OAUTHBEARER)),
    *(("OUTER", each) for each in (*_SCRAM, "PLAIN", OAUTHBEARER)),
    ("CERTIFIED", CERTIFICATE),
]
RIGHT, WRONG, EXPIRED = "right", "wrong", "expired"
CASES: Final = [
    (listener, mechanism, kind)
    for listener, mechanism in _WAYS
    for kind in (RIGHT, WRONG, EXPIRED)
    # Passwords have no end.
    if kind != EXPIRED or mechanism in (OAUTHBEARER, CERTIFICATE)
]
LONG_AGO_S, FOR_EVER_S = 1_600_000_000, 4_102_444_800


class WaysIn(NamedTuple):
    broker: Secured
    tokens: Mapping[str, str]
    certificates: Mapping[str, str]

    def way(self, listener: str, mechanism: str, kind: str) -> Entering:
        passwords = {RIGHT: PASSWORD, WRONG: "rose"}
        known = {OAUTHBEARER: self.tokens, CERTIFICATE: self.certificates}
        secret = known.get(mechanism, passwords)[kind]
        trusted = self.broker.authority.trusted
        protocol = _PROTOCOLS[listener]
        return Entering(self.broker.at(listener), protocol, mechanism, secret, trusted, USER)


@contextmanager
def ways_in(folder: Path) -> Iterator[WaysIn]:
    own, provider, others = (folder / name for name in ("own", "provider", "others"))
    for each in (own, provider, others):
        each.mkdir()
    signed, signed_by_others, authority = tokens(provider), tokens(others), Authority(provider)
    given = {
        RIGHT: signed(exp=FOR_EVER_S),
        WRONG: signed_by_others(exp=FOR_EVER_S),
        EXPIRED: signed(exp=LONG_AGO_S),
    }
    with key_server(provider / "keys.json", authority.certificate("provider")) as keys:
        settings = {
            "signin.max.connections.per.ip": 200,
            "https.ca.location": authority.trusted,
            "sasl.oauthbearer.jwks.endpoint.url": f"{keys.url}/keys",
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.expected.audience": "semel",
        }
        for listener in ("inner", "outer"):
            offered = [name for where, name in _WAYS if where == listener.upper()]
            settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(offered)
        with secured(own, settings) as broker:
            certificates = {
                RIGHT: broker.authority.certificate("client"),
                WRONG: Authority(others).certificate("client"),
                EXPIRED: broker.authority.certificate("expired", is_expired=True),
            }
            shown = {kind: str(file) for kind, file in certificates.items()}
            yield WaysIn(broker, given, shown)
