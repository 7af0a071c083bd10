"""What lane 0 says of who may come in, and of what they may do there, for whoever asks for it."""

from typing import NamedTuple

from semel.access.access_list import AccessListView
from semel.access.quotas import QuotasView
from semel.access.users import UsersView


class AccessView(NamedTuple):
    users: UsersView
    access_list: AccessListView
    quotas: QuotasView
