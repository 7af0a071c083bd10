"""What is said of a store on a command line."""

import pytest

from semel.errors import ConfigError
from semel.store.opening import bare_store
from semel.store.settings import StoreSettings, shown


def test_options_go_to_where_they_belong() -> None:
    settings = StoreSettings.of(
        "s3://bucket/path",
        [
            "endpoint=http://127.0.0.1:9000",
            "AWS_REGION=eu-central-1",
            "virtual_hosted_style_request=true",
            "proxy_url=http://proxy:3128",
            "request_timeout_s=2.5",
        ],
    )
    assert settings.endpoint == "http://127.0.0.1:9000"
    assert settings.options == {"region": "eu-central-1", "virtual_hosted_style_request": "true"}
    assert settings.client_options == {"proxy_url": "http://proxy:3128"}
    assert settings.request_timeout_s == 2.5
    assert not settings.is_ephemeral
    bare_store(settings)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("region", "give KEY=VALUE"),
        ("=blue", "give KEY=VALUE"),
        ("retry_s=long", "give seconds"),
        ("connect_timeout_s=0", "give seconds"),
        ("colour=blue", "colour"),
        ("allow_http=perhaps", "perhaps"),
    ],
)
def test_an_option_that_says_nothing_is_refused_with_its_name(option: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        bare_store(StoreSettings.of("s3://bucket", [option]))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:secret@host:5433/db?sslmode=require", "postgresql://host:5433/db"),
        ("postgresql:///db?host=/run/postgresql&password=secret", "postgresql:///db"),
        ("s3://bucket/path", "s3://bucket/path"),
    ],
)
def test_what_is_shown_of_a_url_holds_no_secret(url: str, said: str) -> None:
    assert shown(url) == said
