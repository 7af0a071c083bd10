"""Who comes in: clients by mechanisms, over TLS and without, with credentials that are right, wrong
or have expired."""

from collections.abc import Iterator

import pytest

from support.entering import CLIENTS, comes_in
from support.ways_in import CASES, RIGHT, WaysIn, ways_in


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaysIn]:
    with ways_in(tmp_path_factory.mktemp("ways")) as found:
        yield found


@pytest.mark.parametrize(("listener", "mechanism", "kind"), CASES)
@pytest.mark.parametrize("client", CLIENTS)
def test_who_has_the_right_credentials_comes_in_and_nobody_else(
    ways: WaysIn, client: str, listener: str, mechanism: str, kind: str
) -> None:
    assert comes_in(client, ways.way(listener, mechanism, kind)) == (kind == RIGHT)
