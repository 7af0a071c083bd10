"""The rules of what is compacted are left out one by one; a named test finds each absence."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from broker import test_compaction_rules
from mutants.forgetting_bugs import open_transactions_are_compacted
from semel.broker import incoming, topic_config
from semel.broker.handlers import delete_records
from semel.compaction.eligibility import Dirtiness
from semel.lane.compacting import Compacting
from semel.lane.settling import Settling
from support.compiled import plain_python

Patch = pytest.MonkeyPatch


def the_youngest_records_are_compacted(patch: Patch) -> None:
    candidate = Compacting._candidate

    async def hasty(self: Compacting, partition: Any, settings: Any, *others: Any) -> Any:
        return await candidate(self, partition, settings._replace(min_compaction_lag_ms=0), *others)

    patch.setattr(Compacting, "_candidate", hasty)


def young_records_replace_old_ones(patch: Patch) -> None:
    """The keys of all that is there are in the map, though only the old ones are compacted."""
    compaction = Compacting._compaction

    async def further(self: Compacting, candidate: Any) -> Any:
        sealed = await self._lane.log.offset_behind(
            candidate.partition, self._settling.sealed_end()
        )
        return replace(await compaction(self, candidate), end=sealed)

    patch.setattr(Compacting, "_compaction", further)


def every_round_compacts_all(patch: Patch) -> None:
    patch.setattr(Dirtiness, "is_eligible", lambda self, *_: self.dirty_size > 0)


def nothing_is_ever_dirty_enough(patch: Patch) -> None:
    patch.setattr(Dirtiness, "is_eligible", lambda self, *_: False)


def producers_go_with_their_batches(patch: Patch) -> None:
    adopt = Settling.adopt_compacted

    async def forgetful(self: Settling, volume: int, compacted: Any) -> None:
        await adopt(self, volume, compacted)
        for each in compacted:
            self._state.partitions[each.number].producers.clear()

    patch.setattr(Settling, "adopt_compacted", forgetful)


def records_without_a_key_are_taken(patch: Patch) -> None:
    patch.setattr(incoming, "_check_keys", lambda *_: None)


def records_of_a_compacted_topic_can_be_deleted(patch: Patch) -> None:
    keeping_of = topic_config.keeping_of
    patch.setattr(
        delete_records,
        "keeping_of",
        lambda *arguments: keeping_of(*arguments)._replace(is_compacted=False),
    )


def retention_holds_for_all(patch: Patch) -> None:
    keeping_of = topic_config.keeping_of

    def unlike(config: Any, broker: Any) -> Any:
        return keeping_of({**config, "cleanup.policy": "compact,delete"}, broker)

    patch.setattr("semel.broker.retention.keeping_of", unlike)


LAG = test_compaction_rules.test_records_younger_than_the_lag_stay_and_replace_nothing
WORTH = test_compaction_rules.test_a_pass_waits_until_it_is_worth_it
RETRIES = test_compaction_rules.test_a_retry_of_what_was_compacted_away_is_known_as_any_other
REFUSED = test_compaction_rules.test_what_has_no_key_or_is_to_be_deleted_is_refused
OPEN = test_compaction_rules.test_what_an_open_transaction_has_written_replaces_nothing
KEPT = test_compaction_rules.test_a_topic_that_is_only_compacted_keeps_the_newest_however_old


@plain_python
@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (the_youngest_records_are_compacted, LAG),
        (young_records_replace_old_ones, LAG),
        (open_transactions_are_compacted, OPEN),
        (every_round_compacts_all, WORTH),
        (nothing_is_ever_dirty_enough, WORTH),
        (producers_go_with_their_batches, RETRIES),
        (records_without_a_key_are_taken, REFUSED),
        (records_of_a_compacted_topic_can_be_deleted, REFUSED),
        (retention_holds_for_all, KEPT),
    ],
)
def test_a_rule_that_is_left_out_is_missed(
    plant: Callable[[Patch], None], test: Callable[[], None], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    with pytest.raises(ExceptionGroup) as found:
        test()
    assert found.value.subgroup(AssertionError) is not None
