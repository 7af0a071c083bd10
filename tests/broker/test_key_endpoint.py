"""Where the keys of tokens come from: over TLS, from whom we trust, and from nobody on the way."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest

from semel.broker.config import BrokerConfig
from semel.broker.key_endpoint import KeyEndpoint
from semel.errors import ConfigError
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.authority import Authority
from support.key_server import KeyServer, key_server
from support.raw_client import RawClient
from support.secured_in_thread import SecuredInThread
from support.tokens import tokens

BROKER = 4
ELSEWHERE = "http://provider.example/keys"
SETTING = "sasl.oauthbearer.jwks.endpoint.url"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(tmp_path: Path, authority: Authority) -> Iterator[KeyServer]:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": []}))
    ways = {"/moved": "/keys", "/open": ELSEWHERE}
    certificate = authority.certificate("provider")
    with key_server(tmp_path / "keys.json", certificate, ways) as one:
        yield one


def test_a_token_signs_in_by_keys_that_came_over_tls(tmp_path: Path, authority: Authority) -> None:
    signed, certificate = tokens(tmp_path), authority.certificate("provider")
    with key_server(tmp_path / "keys.json", certificate) as provider:
        settings = (
            "listeners=SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms=OAUTHBEARER",
            f"{SETTING}={provider.url}/keys?of=tulip",
            f"https.ca.location={authority.trusted}",
            "sasl.oauthbearer.expected.issuer=us",
            "sasl.oauthbearer.expected.audience=semel",
        )
        with SecuredInThread(tmp_path, settings) as broker, RawClient(broker) as client:
            client.call("sasl_handshake", 1, SaslHandshakeRequest("OAUTHBEARER"))
            said = SaslAuthenticateRequest(f"n,,\x01auth=Bearer {signed()}\x01\x01".encode())
            assert client.call("sasl_authenticate", 2, said).error_code == 0
            client.call("metadata", 9, MetadataRequest(None))
            assert provider.asked == ["/keys?of=tulip"]
            wanted = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", [SETTING])])
            (result,) = client.call("describe_configs", 4, wanted).results
            assert [each.value for each in result.configs] == [f"{provider.url}/keys"]
            assert "tulip" not in repr(result)


def test_keys_of_whom_nobody_trusts_are_not_taken(server: KeyServer, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    with pytest.raises(URLError, match="certificate verify failed"):
        KeyEndpoint(f"{server.url}/keys", str(other.trusted)).fetched()
    assert server.asked == []


def test_the_name_in_the_certificate_is_that_of_the_address(
    tmp_path: Path, authority: Authority
) -> None:
    certificate = authority.certificate("another", "another.example")
    with (
        key_server(tmp_path / "ca.pem", certificate) as server,
        pytest.raises(URLError, match="certificate is not valid for 'localhost'"),
    ):
        KeyEndpoint(server.url, str(authority.trusted)).fetched()


def test_a_provider_may_send_us_on_but_not_where_others_can_listen(
    server: KeyServer, authority: Authority
) -> None:
    moved = KeyEndpoint(f"{server.url}/moved", str(authority.trusted))
    assert json.loads(moved.fetched()) == {"keys": []}
    with pytest.raises(URLError, match=f"it leads to {ELSEWHERE}, which is no https"):
        KeyEndpoint(f"{server.url}/open", str(authority.trusted)).fetched()
    assert server.asked == ["/moved", "/keys", "/open"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (ELSEWHERE, "it has to be https://"),
        ("http://10.0.0.1/keys", "it has to be https://"),
        ("ftp://provider.example/keys", "it begins with https:// or file:///"),
        ("https:///keys", "it begins with https:// or file:///"),
        ("keys.json", "it begins with https:// or file:///"),
    ],
)
def test_what_is_no_safe_address_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        KeyEndpoint(url, "")


def test_plain_http_is_for_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("{}")
    with key_server(tmp_path / "keys.json") as server:
        assert KeyEndpoint(f"{server.url}/keys", "").fetched() == b"{}"


@pytest.mark.parametrize("url", ["https://ana:tulip@id.example/keys", "https://[tulip"])
@pytest.mark.parametrize("name", [SETTING, f"listener.name.outer.{SETTING}"])
def test_an_address_with_a_password_is_refused_and_not_shown(name: str, url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_values({name: url})
    assert "tulip" not in str(refused.value)


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    config = BrokerConfig.from_values({SETTING: "https://id.example/keys?key=tulip"})
    assert config.shown()[SETTING] == "https://id.example/keys"
    assert "tulip" not in repr(config)
