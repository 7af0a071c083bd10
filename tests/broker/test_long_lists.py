"""Very many rules and users are listed in steps, and who lost the right meanwhile sees none."""

from functools import partial
from typing import Any

import pytest

from broker.test_access import Guarded, as_, say, take_back
from broker.test_large_answers import steps_of
from semel.access.scram import Credential, Mechanism
from semel.broker.answer import Call
from semel.broker.handlers.describe_acls import RULES_AT_ONCE, describe_acls
from semel.broker.handlers.describe_user_scram_credentials import (
    USERS_AT_ONCE,
    describe_user_scram_credentials,
)
from semel.lane.users import AlterUser
from semel.wire.apis import BY_KEY
from semel.wire.messages.describe_acls import DescribeAclsRequest
from semel.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from semel.wire.rights import DESCRIBE_CLUSTER, READ_TOPIC
from support.access_table import ANN, codes, rule
from support.handled import Machine, on_a


@pytest.mark.parametrize("kind", ["rules", "users"])
@on_a(Guarded)
async def test_lists_of_rules_and_users_let_others_go_on_who_may_take_the_right(
    machine: Machine, kind: str
) -> None:
    async with machine.broker() as broker:
        her_rule = rule(DESCRIBE_CLUSTER)
        say(broker, [her_rule])
        if kind == "rules":
            count, at_once = 2 * RULES_AT_ONCE, RULES_AT_ONCE
            say(broker, [rule(READ_TOPIC, f"t{number}") for number in range(count)])
            anything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
            work: Any = partial(describe_acls, broker, anything)
            key = 29
        else:
            count, at_once = 2 * USERS_AT_ONCE, USERS_AT_ONCE
            for number in range(count):
                made = Credential(Mechanism.SCRAM_SHA_256, 4_096, b"salt", b"", b"")
                broker.lanes.controller.submit(AlterUser(f"u{number}", (made,), ()))
            nobody_named = DescribeUserScramCredentialsRequest(None)
            work = partial(describe_user_scram_credentials, broker, nobody_named)
            key = 50
        api = BY_KEY[key]
        asked = Call(api, api.version_max, 1, None, as_(broker, ANN))
        steps, answered = steps_of(work(asked))
        assert (steps, {*codes(answered)}) == (count // at_once, {0})
        found = answered.resources if kind == "rules" else answered.results
        assert len(found) >= count
        going_on = work(asked)
        going_on.send(None)
        take_back(broker, [her_rule])
        _, refused = steps_of(going_on)
        assert refused.error_code == 31
        assert not (refused.resources if kind == "rules" else refused.results)
