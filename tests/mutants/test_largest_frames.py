"""Rule 37, left out place by place; named tests find it."""

from collections.abc import Callable

import pytest

from broker import test_wide_transactions
from cluster import test_largest_batches
from journal import test_slots
from semel.broker import topic_config
from semel.broker.broker import Broker
from semel.broker.current_settings import CurrentSettings
from semel.errors import SemelError
from semel.journal.slots.settings import SlotSettings
from semel.lane import transactions as lane_transactions
from support.compiled import plain_python

Patch = pytest.MonkeyPatch

pytestmark = plain_python


def a_frame_takes_the_whole_slot(patch: Patch) -> None:
    """And what stands before it has no room."""
    patch.setattr(SlotSettings, "payload_bytes_max", property(lambda self: self.slot_bytes))


def whatever_size_is_set_for_all(patch: Patch) -> None:
    patch.setattr(CurrentSettings, "check_sizes", lambda self, config: None)


def whatever_size_is_set_for_a_topic(patch: Patch) -> None:
    check = topic_config.check
    patch.setattr(topic_config, "check", lambda config, message_bytes_most: check(config, 2**31))


def a_batch_may_fill_the_journal(patch: Patch) -> None:
    """Also one for which there is no slot that is large enough."""
    init = Broker.__init__

    def generous(self: Broker, *arguments: object, **options: object) -> None:
        init(self, *arguments, **options)  # type: ignore[arg-type]
        self.batch_size_most *= 2

    patch.setattr(Broker, "__init__", generous)


def a_transaction_may_be_as_wide_as_it_likes(patch: Patch) -> None:
    patch.setattr(lane_transactions, "_check_width", lambda *_: None)


NAMED: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (
        a_frame_takes_the_whole_slot,
        test_slots.test_the_largest_frame_has_a_slot_to_itself_and_none_is_larger_than_it_may_be,
    ),
    (
        whatever_size_is_set_for_all,
        test_largest_batches.test_a_node_that_would_take_more_does_not_start,
    ),
    (whatever_size_is_set_for_a_topic, test_largest_batches.test_no_topic_can_be_made_to_take_more),
    (a_batch_may_fill_the_journal, test_largest_batches.test_no_topic_can_be_made_to_take_more),
    (
        a_transaction_may_be_as_wide_as_it_likes,
        test_wide_transactions.test_under_tv2_the_batch_that_would_join_is_refused_with_the_reason,
    ),
]


@pytest.mark.parametrize(("plant", "kill"), NAMED, ids=[plant.__name__ for plant, _ in NAMED])
def test_a_planted_bug_dies_by_name(
    plant: Callable[[Patch], None], kill: Callable[[], None], monkeypatch: Patch
) -> None:
    kill()
    plant(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup, SemelError, pytest.fail.Exception)):
        kill()
