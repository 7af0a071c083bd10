"""The audit log: the first of its kind is told at once, what follows is counted, changes always."""

from typing import Any

from semel.access.principal import Caller, Principal
from semel.broker.audit import COUNTED_S, KINDS_MAX, Audit
from semel.wire.rights import READ_TOPIC

ANA = Caller(Principal("User", "ana"), "CLIENTS", "10.0.0.7")


class Time:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class Stream:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))


def test_what_comes_again_is_counted_and_told_once_a_minute() -> None:
    time, stream = Time(), Stream()
    audit = Audit(time, stream)
    for _ in range(1_000):
        audit.sign_in_refused("CLIENTS", "10.0.0.7", "PLAIN", "ana", "the password is wrong")
        audit.tell()
    time.now_ms += int(COUNTED_S * 1000)
    audit.tell()
    first, rest = stream.lines
    said = {
        "user": "ana",
        "host": "10.0.0.7",
        "listener": "CLIENTS",
        "mechanism": "PLAIN",
        "reason": "the password is wrong",
    }
    assert first == ("sign-in refused", said)
    assert rest == ("sign-in refused", {**said, "times": 999})
    audit.sign_in_refused("CLIENTS", "10.0.0.7", "PLAIN", "ana", "the password is wrong")
    assert stream.lines[2] == first


def test_a_flood_of_kinds_is_counted_together_and_takes_no_memory() -> None:
    time, stream = Time(), Stream()
    audit = Audit(time, stream)
    for number in range(3 * KINDS_MAX):
        audit.access_refused(ANA, READ_TOPIC, f"topic-{number}")
    assert len(stream.lines) == KINDS_MAX
    assert stream.lines[0][1]["right"] == "Read topic"
    time.now_ms += int(COUNTED_S * 1000)
    audit.tell()
    told = {"of": "access refused", "times": 2 * KINDS_MAX}
    assert stream.lines[KINDS_MAX:] == [("more of many kinds", told)]


def test_who_comes_in_is_told_though_others_make_up_names_at_the_door() -> None:
    stream = Stream()
    audit = Audit(Time(), stream)
    for number in range(2 * KINDS_MAX):
        audit.sign_in_refused("CLIENTS", "10.0.0.9", "PLAIN", f"name-{number}", "no such user")
    audit.signed_in(ANA, "PLAIN")
    audit.access_refused(ANA, READ_TOPIC, "topic")
    events = [event for event, _ in stream.lines[KINDS_MAX:]]
    assert events == ["signed in", "access refused"]


def test_every_change_is_told_and_a_name_cannot_write_lines_of_its_own() -> None:
    stream = Stream()
    audit = Audit(Time(), stream)
    for _ in range(2):
        audit.changed(ANA, "user set", user="bob\nuser deleted\x1b[2J")
    assert len(stream.lines) == 2
    event, values = stream.lines[0]
    assert event == "user set"
    assert values["user"] == "bob\\nuser deleted\\x1b[2J"
    assert values["principal"] == "User:ana"
