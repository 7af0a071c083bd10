"""Who may do what here: what lane 0 says, as long as that is known to be so still.

Law: nothing is decided by a list that may have been replaced for longer than `STALE_S`. Whoever
hears nothing more of lane 0 decides nothing, and closes the connections that ask.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from semel.access.access_list import AccessListView
from semel.access.principal import Caller
from semel.access.rights import UNRESTRICTED, AccessSettings, CallersRights, Rights
from semel.broker import log
from semel.broker.audit import Audit
from semel.broker.config import BrokerConfig
from semel.broker.led_lanes import LedLanes
from semel.broker.setting import AUTHORIZER, NO_AUTHORIZER
from semel.errors import AccessUnknown, ConfigError
from semel.wire.rights import Right

STALE_S: Final = 5.0


class AccessControl:
    def __init__(
        self,
        lanes: LedLanes,
        config: BrokerConfig,
        audit: Audit,
        silent_s: Callable[[], float] | None,
    ) -> None:
        """`silent_s` tells how long ago it was last known that nothing newer is to be heard of
        lane 0; None where nobody else can lead that."""
        self.is_on: Final = config.has_access_control
        """Without it everybody may do everything, and it is asked for nothing."""
        self._is_told_off = config.authorizer_class_name == NO_AUTHORIZER
        self._is_checked = False
        self._lanes = lanes
        self._settings = AccessSettings(
            config.principals_of_super_users, config.allow_everyone_if_no_acl_found
        )
        self._audit = audit
        self._silent_s = silent_s
        self._has_heard = asyncio.Event()

    def rights_of(self, caller: Caller) -> Rights:
        if not self.is_on:
            return UNRESTRICTED
        return CallersRights(caller, self.access_list, self._settings, self._refused)

    def access_list(self) -> AccessListView:
        """Raises AccessUnknown."""
        access = self._lanes.access
        if access is None:
            raise AccessUnknown("nobody has told who may do what")
        if self._silent_s is not None and (silent_s := self._silent_s()) > STALE_S:
            raise AccessUnknown(f"what is known of who may do what is {silent_s:.1f} s old")
        return access.access_list

    def check(self, rule_count: int) -> None:
        """Lane 0 is known, and so many rules are. Raises ConfigError if everybody could do
        everything, and nobody has said so: whoever forgets a setting is not to open what was
        guarded. But only the first time: rules that come while a cluster gets its access control,
        node by node, end nobody."""
        if self._is_checked:
            return
        self._is_checked = True
        settings = self._settings
        if rule_count and not self.is_on and not self._is_told_off:
            raise ConfigError(
                f"everybody could do everything, although there are rules ({rule_count}): say "
                f"authorizer.class.name={AUTHORIZER}, or =none if they are to count for nothing"
            )
        if self.is_on and not (rule_count or settings.super_users or settings.allows_if_no_rule):
            log.warning("nobody may do anything: there are no rules, and super.users names nobody")

    def look(self) -> None:
        """Something was heard of lane 0. Raises ConfigError, as `check`: not before all of it was
        heard, as the rules may be the last of it."""
        if self._is_known:
            self.check(len(self.access_list()))
        self._has_heard.set()
        self._has_heard = asyncio.Event()

    async def until_known(self, until_s: float) -> None:
        """Return when it is known who may do what, or at this time at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while not self._is_known:
                    await self._has_heard.wait()

    @property
    def _is_known(self) -> bool:
        try:
            self.access_list()
        except AccessUnknown:
            return False
        return True

    def _refused(self, caller: Caller, right: Right, name: str) -> None:
        rule = self.access_list().denying(caller.principal, caller.host, right, name)
        self._audit.access_refused(caller, right, name, "" if rule is None else str(rule))
