"""Tells systemd when a broker serves and when it ends, if it has asked (Type=notify)."""

import contextlib
import os
import socket
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"


class ServiceManager:
    def __init__(self) -> None:
        """Processes that are started from here on have nothing to tell."""
        self._address = os.environ.pop(VARIABLE, "")

    def ready(self, about: str) -> None:
        self._tell(f"READY=1\nSTATUS={about}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is one that no file has.
        address = self._address.replace("@", "\0", 1)
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to_manager,
        ):
            to_manager.connect(address)
            to_manager.sendall(state.encode())
