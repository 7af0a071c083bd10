"""A process to be killed: appends numbered frames to a journal and prints what it was promised.

victim.py FOLDER    prints "w N" once frame N is written, "d N" once it is durable
"""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from semel.journal.file.disk import FileDevice
from semel.journal.file.journal import FileJournal
from semel.journal.file.settings import JournalSettings

SETTINGS = JournalSettings(segment_bytes=256 * 1024)


def payload_of(number: int) -> bytes:
    return b"%09d:" % number + b"x" * (number * 37 % 5000)


def number_of(payload: bytes) -> int:
    number = int(payload[:9])
    assert payload == payload_of(number)
    return number


async def append_for_ever(folder: Path) -> None:
    journal = FileJournal.open(FileDevice(folder), SETTINGS)
    number = int(journal.checkpoint or b"0")
    for position, stored in journal.replay():
        assert number_of(bytes(stored)) == number
        journal.index.add(0, number, position, len(stored), number)
        number += 1

    def say(kind: str, number: int) -> None:
        os.write(1, b"%s %d\n" % (kind.encode(), number))

    def die(failure: BaseException) -> None:
        os.write(2, repr(failure).encode())
        os._exit(3)

    journal.start(
        asyncio.get_running_loop(), lambda position: None, lambda: iter([b"%d" % number]), die
    )
    os.write(1, b"s %d\n" % number)
    while True:
        payload = payload_of(number)
        journal.reserve(len(payload), 0)
        position = journal.append([payload], len(payload))
        journal.index.add(0, number, position, len(payload), number)
        journal.when_written(journal.end, partial(say, "w", number))
        if number % 7 == 0:
            journal.when_durable(journal.end, partial(say, "d", number))
        number += 1
        if number % 5 == 0:
            await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(append_for_ever(Path(sys.argv[1])))
