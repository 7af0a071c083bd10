"""`semel user add --data`: adds a user to a folder that no broker has, as nobody could sign in to
add the first one."""

import asyncio
from pathlib import Path
from typing import NoReturn

from semel.access.scram import Mechanism, credential
from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig
from semel.broker.setting import NO_AUTHORIZER
from semel.errors import ConfigError
from semel.journal.file.disk import FileDevice, require_data_folder
from semel.journal.file.lane_folders import lane_count
from semel.lane.users import AlterUser
from semel.volumes.binding import check_named
from semel.world import SystemClock, SystemRandomness

SALT_SIZE = 16


def add_user(
    folder: Path, name: str, password: bytes, iterations: int, *, is_new: bool = False
) -> None:
    """Or give one another password; `is_new` if the folder may have to be made. Raises FolderInUse
    and what else keeps a broker from starting, in one sentence."""
    if not is_new:
        try:
            require_data_folder(FileDevice(folder))
        except ConfigError as error:
            raise ConfigError(f"{error}; --new begins one there") from None
    check_named(folder, None)
    if lane_count(folder) > 1:
        raise ConfigError(
            f"{folder} has several lanes: name the user in the file of initial.users instead"
        )
    randomness = SystemRandomness()
    made = tuple(
        credential(mechanism, password, randomness.token_bytes(SALT_SIZE), iterations)
        for mechanism in Mechanism
    )
    storage = Storage(str(folder), lambda: (-1, -1))
    # Nobody can reach it.
    config = BrokerConfig(authorizer_class_name=NO_AUTHORIZER)
    broker = Broker(config, [FileDevice(folder)], storage, SystemClock(), randomness)
    asyncio.run(_submit(broker, AlterUser(name, made, ())))


class _Done(Exception):
    """Ends the tasks of the broker."""


def _end_tasks() -> NoReturn:
    raise _Done


async def _submit(broker: Broker, command: AlterUser) -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            await broker.start(tasks)
            lane = broker.lanes.controller
            lane.submit(command)
            await lane.until_durable()
            broker.close()
            _end_tasks()
    except* _Done:
        pass
    finally:
        await broker.stop()
