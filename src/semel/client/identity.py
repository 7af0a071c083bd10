"""Who writes, as brokers know it."""

from typing import NamedTuple

from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Identity(NamedTuple):
    """A broker knows a batch by these and its sequence."""

    producer_id: int
    producer_epoch: int


NOBODY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
