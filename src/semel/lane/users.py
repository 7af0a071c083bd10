"""Commands about users: their credentials, which are facts of lane 0."""

from typing import Final, NamedTuple

from semel.access.scram import Credential, Mechanism
from semel.errors import InvalidRequest, ResourceNotFound
from semel.lane import facts
from semel.lane.commands import Decided, Environment
from semel.lane.frame import Frame
from semel.lane.leader import ACCESS_LEVEL
from semel.lane.state import LaneState
from semel.world import Moment

SALT_KEY_SIZE: Final = 32


def check_level(state: LaneState, what: str = "users") -> None:
    """That whatever version reads this journal knows of these. Raises InvalidRequest."""
    if state.led is not None and state.level < ACCESS_LEVEL:
        raise InvalidRequest(
            f"the cluster writes at level {state.level}, which knows of no {what}: see to it that "
            f"all nodes have a version that knows level {ACCESS_LEVEL}, and say so by "
            "`semel cluster upgrade`"
        )


class AlterUser(NamedTuple):
    """Credentials of one user are set and dropped, together. The first brings along what the salts
    of users are made of that there are not."""

    name: str
    credentials: tuple[Credential, ...] = ()
    dropped: tuple[Mechanism, ...] = ()

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        check_level(state)
        known = state.users.of(self.name)
        frame = Frame(at)
        for mechanism in self.dropped:
            if mechanism not in known:
                raise ResourceNotFound(
                    f"user {self.name!r} has no credential for {mechanism.shown}"
                )
            frame.add_fact(facts.CredentialDropped(self.name, mechanism))
        if self.credentials and not state.users.salt_key:
            frame.add_fact(facts.SaltKeyDrawn(environment.randomness.token_bytes(SALT_KEY_SIZE)))
        for each in self.credentials:
            frame.add_fact(facts.CredentialSet(self.name, *each))
        return Decided(None, frame)
