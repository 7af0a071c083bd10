"""Tokens that say odd things, in a broker that others sign in to meanwhile."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.access.sasl import Proven, SignInRefused
from semel.broker.bearer import END_S_MAX, LIFETIME_MS_MAX, Keys
from semel.broker.config import BrokerConfig
from semel.broker.listeners import listeners_of
from semel.broker.sign_in import SignIn
from semel.broker.turns import Turns
from semel.world import SystemClock

SECRET = b"k" * 32
"""Ed25519 makes a key of any bytes."""


class Provider:
    """Signs whatever it is given, in its own words."""

    def __init__(self, folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(SECRET)
        public = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(self._key.public_key()))
        file = folder / "keys.json"
        file.write_text(json.dumps({"keys": [{**public, "kid": "one", "alg": "EdDSA"}]}))
        settings = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{file}",
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.expected.audience": "semel",
        }
        (self._listener,) = listeners_of(BrokerConfig.from_values(settings))

    def signed(self, claims: str) -> str:
        """`claims` is JSON, and perhaps not."""
        return jwt.api_jws.encode(claims.encode(), self._key, "EdDSA", {"kid": "one"})

    def keys(self) -> Keys:
        return Keys(self._listener, SystemClock())

    async def proven(self, token: str) -> Proven:
        keys = self.keys()
        return keys.proven(await keys.claimed(token))


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Provider:
    return Provider(tmp_path_factory.mktemp("provider"))


def claims(exp: str, more: str = "") -> str:
    return f'{{"iss": "us", "aud": "semel", "sub": "ana", "exp": {exp}{more}}}'


ODD = [
    "NaN", "Infinity", "-Infinity", "1e999", "1e300", "-1", "0", "-0.5", "true", "null", "[]", "{}",
    '"4102444800"', '"1e9"', '"soon"', '""', str(END_S_MAX + 1), "9" * 400, "[" * 2_000,
]  # fmt: skip


@pytest.mark.parametrize("exp", ODD, ids=range(len(ODD)))
def test_a_token_that_says_no_time_at_which_it_ends_is_refused(
    provider: Provider, exp: str
) -> None:
    with pytest.raises(SignInRefused) as refused:
        asyncio.run(provider.proven(provider.signed(claims(exp))))
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize("name", ["nbf", "iat"])
@pytest.mark.parametrize("value", ["1e999", "NaN", '"x"', "[]"])
def test_other_times_that_are_none_are_refused(provider: Provider, name: str, value: str) -> None:
    with pytest.raises(SignInRefused):
        asyncio.run(provider.proven(provider.signed(claims("4102444800", f', "{name}": {value}'))))


@pytest.mark.parametrize("exp", ["4102444800", "4102444800.75", "4.1e9", str(END_S_MAX)])
def test_any_number_of_seconds_is_a_time_and_no_session_lasts_for_ever(
    provider: Provider, exp: str
) -> None:
    found = asyncio.run(provider.proven(provider.signed(claims(exp))))
    assert found.user == "ana"
    assert found.lifetime_ms == LIFETIME_MS_MAX


@given(st.text(max_size=60) | st.sampled_from(["\ud800..", "eyJ.e30.", "[" * 9_000, "..", "a.b.c"]))
def test_what_is_no_token_is_refused(text: str) -> None:
    keys = Keys.__new__(Keys)
    keys._jwt = jwt
    with pytest.raises(SignInRefused):
        asyncio.run(keys.claimed(text))


def test_the_check_of_a_signature_takes_its_turn() -> None:
    checked: list[str] = []

    class Signed:
        async def claimed(self, token: str) -> str:
            return token

        def proven(self, claim: Any) -> Proven:
            checked.append(claim)
            return Proven("ana")

    async def main() -> None:
        turns = Turns(1.0, one_at_a_time=True)
        keys: Any = Signed()
        nothing: Any = None
        visit: Any = SimpleNamespace(host="h")
        desk: Any = SimpleNamespace(checks=turns)
        sign_in = SignIn(desk, nothing, visit, keys, has_tls=True)
        await turns.begin("other")
        asking = asyncio.create_task(sign_in._check_token(b"n,,\x01auth=Bearer token\x01\x01"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not checked
        turns.end()
        assert await asking == Proven("ana")
        assert checked == ["token"]
        # And it gives back what it took.
        await turns.begin("next")

    asyncio.run(main())
