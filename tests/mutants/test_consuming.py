"""Rules of the consumer's core are left out one by one; a named test must find each absence."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from client.consuming import test_assignors, test_membership, test_positions
from semel.client.consuming import assignors
from semel.client.consuming.actions import Tell
from semel.client.consuming.completed_fetch import CompletedFetch
from semel.client.consuming.membership import Membership
from semel.client.consuming.partition import PartitionState, Spot
from semel.client.consuming.positions import Positions
from semel.errors import UnknownMemberId

Kill = Callable[[], None]
Plant = Callable[[pytest.MonkeyPatch], None]


def what_another_may_have_is_given_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assignors, "_claimed_by_others", lambda *_: set())


def the_older_claim_wins(patch: pytest.MonkeyPatch) -> None:
    generation = assignors._generation
    patch.setattr(assignors, "_generation", lambda subscription: -generation(subscription))


def nobody_is_relieved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assignors._Shares, "balance", lambda shares: None)


def a_member_that_gave_up_partitions_does_not_join_again(patch: pytest.MonkeyPatch) -> None:
    synced = Membership.synced

    def at_rest(core: Membership, assignment: bytes) -> None:
        synced(core, assignment)
        core._is_stale = False

    patch.setattr(Membership, "synced", at_rest)


def a_member_that_is_unknown_keeps_what_it_had(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "is_member", property(lambda core: True))


def an_eager_member_keeps_its_partitions_while_it_joins(patch: pytest.MonkeyPatch) -> None:
    init = Membership.__init__

    def cooperative(core: Membership, *arguments: Any) -> None:
        init(core, *arguments)
        core.is_cooperative = True

    patch.setattr(Membership, "__init__", cooperative)


def old_answers_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "is_settled", lambda core, identity: True)


def whoever_stays_away_joins_again_by_itself(patch: pytest.MonkeyPatch) -> None:
    overslept = Membership.overslept

    def awake(core: Membership) -> None:
        overslept(core)
        core._is_asleep = False

    patch.setattr(Membership, "overslept", awake)


def what_was_lost_is_told_when_the_group_has_let_go(patch: pytest.MonkeyPatch) -> None:
    def due_tell(core: Membership) -> Tell | None:
        action = core.due()
        return action if isinstance(action, Tell) else None

    patch.setattr(Membership, "due_tell", due_tell)


def what_was_lost_is_held_by_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Membership, "holder", property(lambda core: core.identity))


def an_answer_counts_wherever_the_position_is(patch: pytest.MonkeyPatch) -> None:
    def put(positions: Positions, spot: Spot, fetched: CompletedFetch) -> None:
        partition = positions._states[spot.partition]
        partition.fetches.append(fetched)
        positions._enqueue(partition)

    patch.setattr(Positions, "put", put)


def paused_partitions_are_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionState, "is_readable", property(lambda partition: partition.want is None))


def what_was_given_up_is_still_handed_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Positions,
        "remove",
        lambda positions, places: [positions._states.pop(place) for place in places],
    )


def a_position_stops_at_the_last_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        CompletedFetch, "_finish", lambda fetched: setattr(fetched, "next_offset", fetched.offset)
    )


def a_new_leader_is_trusted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Positions, "_check", lambda positions, partition: None)


def a_position_outlives_its_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Positions, "learn_topics", lambda positions, topic_ids: [])


def a_topic_that_was_replaced_comes_back(patch: pytest.MonkeyPatch) -> None:
    learn_topics = Positions.learn_topics

    def forgetful(positions: Positions, topic_ids: Mapping[str, bytes]) -> list[Spot]:
        positions._replaced_ids.clear()
        return learn_topics(positions, topic_ids)

    patch.setattr(Positions, "learn_topics", forgetful)


def in_disorder(assignor: str) -> Kill:
    test = test_membership.test_a_group_in_any_disorder_never_has_two_owners_and_comes_to_rest

    def run() -> None:
        for block in range(4):
            test(assignor, block)

    return run


PLANTED: list[tuple[Plant, Kill]] = [
    (what_another_may_have_is_given_at_once, in_disorder("cooperative-sticky")),
    (
        the_older_claim_wins,
        test_assignors.test_of_two_that_claim_a_partition_the_younger_generation_has_it,
    ),
    (nobody_is_relieved, test_assignors.test_among_equals_no_more_moves_than_must),
    (
        a_member_that_gave_up_partitions_does_not_join_again,
        test_membership.test_a_cooperative_member_gives_up_what_another_shall_have_and_joins_again,
    ),
    (a_member_that_is_unknown_keeps_what_it_had, in_disorder("cooperative-sticky")),
    (an_eager_member_keeps_its_partitions_while_it_joins, in_disorder("range")),
    (
        old_answers_count,
        test_membership.test_an_answer_to_who_the_member_was_before_means_nothing,
    ),
    (
        whoever_stays_away_joins_again_by_itself,
        lambda: test_membership.test_who_stays_away_leaves_and_joins_when_it_is_back(None),
    ),
    (
        what_was_lost_is_told_when_the_group_has_let_go,
        test_membership.test_who_has_stayed_away_hears_of_its_loss_before_its_group_has_let_it_go,
    ),
    (
        what_was_lost_is_held_by_nobody,
        lambda: (
            test_membership.test_what_was_lost_is_held_by_who_it_was_until_the_application_is_told(
                UnknownMemberId("")
            )
        ),
    ),
    (
        an_answer_counts_wherever_the_position_is,
        test_positions.test_an_answer_for_another_position_is_left_out,
    ),
    (
        paused_partitions_are_read,
        test_positions.test_a_paused_partition_keeps_what_was_fetched_and_asks_for_no_more,
    ),
    (
        what_was_given_up_is_still_handed_out,
        test_positions.test_a_revoked_partition_is_silent_at_once,
    ),
    (
        a_position_stops_at_the_last_record,
        test_positions.test_a_position_passes_by_markers_and_what_was_aborted,
    ),
    (
        a_new_leader_is_trusted,
        test_positions.test_a_new_leader_is_asked_whether_it_has_what_was_read,
    ),
    *(
        (
            plant,
            test_positions.test_a_position_is_one_of_the_topic_that_was_read_and_not_of_another_of_its_name,
        )
        for plant in (a_position_outlives_its_topic, a_topic_that_was_replaced_comes_back)
    ),
]


@pytest.mark.parametrize(("plant", "kill"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_the_absence_of_a_rule_is_found(
    plant: Plant, kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        kill()
