"""Users are state of lane 0: replayed, kept by checkpoints, shown by no dump."""

from pathlib import Path
from random import Random

import pytest

from lane.test_recovery import empty_state
from semel.access.scram import Credential, Mechanism, credential
from semel.errors import InvalidRequest, ResourceNotFound
from semel.groups.settings import GroupSettings
from semel.journal.file.disk import FileDevice
from semel.journal.seam import Limits
from semel.lane import dump, facts, restoring, snapshot, snapshot_format
from semel.lane import frame as frames
from semel.lane.commands import Environment, LaneSettings
from semel.lane.state import LaneState
from semel.lane.users import AlterUser
from semel.testing import Broker
from semel.types import Position
from semel.world import Moment
from support.handled import Machine, SeededRandomness, on_a
from support.lane_state import whole

S256, S512 = Mechanism
ONE = Credential(S256, 4096, b"salt of one", b"stored key of one", b"server key of one")
OTHER = Credential(S512, 8192, b"salt of other", b"stored key of other", b"server key of other")
SECRETS = [value for each in (ONE, OTHER) for value in each if isinstance(value, bytes)]


def applied(state: LaneState, command: AlterUser) -> frames.Frame:
    environment = Environment(
        LaneSettings(GroupSettings()), SeededRandomness(Random(1)), Limits(2**20, "a setting")
    )
    frame = command.decide(state, Moment(1, 1), environment).frame
    assert frame is not None
    state.apply(frame)
    return frame


def test_a_credential_replaces_the_one_of_its_mechanism_and_goes_by_itself() -> None:
    state = empty_state()
    applied(state, AlterUser("ann", (ONE, OTHER)))
    newer = ONE._replace(salt=b"newer")
    applied(state, AlterUser("ann", (newer,)))
    assert dict(state.users.of("ann")) == {S256: newer, S512: OTHER}
    applied(state, AlterUser("ann", (), (S256,)))
    assert dict(state.users.of("ann")) == {S512: OTHER}
    with pytest.raises(ResourceNotFound, match="'ann' has no credential for SCRAM-SHA-256"):
        applied(state, AlterUser("ann", (), (S256,)))
    applied(state, AlterUser("ann", (), (S512,)))
    assert list(state.users) == []


def test_only_the_first_user_brings_the_key_of_salts() -> None:
    state = empty_state()
    applied(state, AlterUser("ann", (ONE,)))
    key = state.users.salt_key
    assert len(key) == 32
    applied(state, AlterUser("bob", (ONE,)))
    assert state.users.salt_key == key


def test_a_frame_about_users_is_of_a_layout_that_versions_before_refuse() -> None:
    frame = applied(empty_state(), AlterUser("ann", (ONE,)))
    payload = b"".join(map(bytes, frame.encode()))
    assert payload[0] == frames.LAYOUT == 3
    again = empty_state()
    again.apply(frames.decode(memoryview(payload), Position(0)))
    assert dict(again.users.of("ann")) == {S256: ONE}
    assert len(payload) == frame.size


def test_a_cluster_that_writes_for_older_versions_takes_no_users() -> None:
    state = empty_state()
    state.led = facts.Led(1, 1, "h", 1)
    with pytest.raises(InvalidRequest, match="level 1, which knows of no users"):
        applied(state, AlterUser("ann", (ONE,)))
    assert not state.users
    state.level = 3
    applied(state, AlterUser("ann", (ONE,)))
    assert list(state.users) == ["ann"]


def test_a_checkpoint_keeps_users_and_is_of_an_older_format_where_there_never_were_any() -> None:
    state = empty_state()
    assert whole(state)[0] == snapshot_format.FORMAT_OF_ONE_LANE
    applied(state, AlterUser("ann", (ONE, OTHER)))
    applied(state, AlterUser("bob", (ONE,)))
    stored = whole(state)
    assert stored[0] == snapshot_format.FORMAT == 7
    again = empty_state()
    restoring.restore(stored, again)
    assert dict(again.users.of("ann")) == {S256: ONE, S512: OTHER}
    assert dict(again.users.of("bob")) == {S256: ONE}
    assert again.users.salt_key == state.users.salt_key


def test_a_checkpoint_holds_the_users_of_its_start() -> None:
    state = empty_state()
    applied(state, AlterUser("ann", (ONE,)))
    before = whole(state)
    taking = snapshot.take(state)
    pieces = [next(taking)]
    applied(state, AlterUser("bob", (OTHER,)))
    applied(state, AlterUser("ann", (), (S256,)))
    assert b"".join([*pieces, *taking]) == before


def test_no_fact_shows_what_is_kept_of_a_password() -> None:
    shown = repr(facts.CredentialSet("ann", *ONE)) + repr(facts.SaltKeyDrawn(b"the key"))
    assert not [secret for secret in [*SECRETS, b"the key"] if secret.decode() in shown]


@on_a(Machine)
async def test_users_are_there_again_after_a_kill(machine: Machine) -> None:
    async with machine.broker() as broker:
        broker.lanes.controller.submit(AlterUser("ann", (ONE,)))
        await broker.lanes.controller.until_durable()
    machine.device.kill()
    async with machine.broker() as broker:
        assert broker.lanes.users is not None
        assert dict(broker.lanes.users.of("ann")) == {S256: ONE}


def test_a_dump_of_the_folder_names_users_and_shows_no_key(tmp_path: Path) -> None:
    from semel.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )
    from support.raw_client import RawClient

    kept = credential(S256, b"secret", b"the salt of ann.", 4096)
    with Broker(data=tmp_path) as broker, RawClient(broker) as client:
        upsertion = ScramCredentialUpsertion("ann", 1, 4096, kept.salt, b"s" * 32)
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        (result,) = client.call("alter_user_scram_credentials", 0, request).results
        assert (result.user, result.error_code) == ("ann", 0)
    device = FileDevice(tmp_path)
    try:
        shown = repr(list(dump.dump(device, 0, None)))
    finally:
        device.stop()
    assert "'CredentialSet', fields={'user': 'ann', 'mechanism': 1, 'iterations': 4096}" in shown
    assert "the salt of ann" not in shown
