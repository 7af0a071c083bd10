"""What two nodes say to each other cannot be made up, changed, repeated or sent back."""

import pytest

from semel.cluster.session import NONCE_SIZE, Session, WrongCode

KEY = b"k" * 32
CALLER = b"c" * NONCE_SIZE
ANSWERER = b"a" * NONCE_SIZE


def both(key: bytes = KEY) -> tuple[Session, Session]:
    return Session(KEY, CALLER, ANSWERER), Session(key, CALLER, ANSWERER)


def test_calls_and_answers_are_read_in_their_order() -> None:
    caller, answerer = both()
    for said in (b"first", b"", b"third"):
        assert answerer.open_call(caller.sign_call(said)) == said
        assert caller.open_answer(answerer.sign_answer(said[::-1])) == said[::-1]


def test_another_key_is_refused() -> None:
    caller, answerer = both(b"x" * 32)
    with pytest.raises(WrongCode):
        answerer.open_call(caller.sign_call(b"said"))


@pytest.mark.parametrize("at", range(36))
def test_a_changed_byte_is_refused(at: int) -> None:
    caller, answerer = both()
    signed = bytearray(caller.sign_call(b"said"))
    signed[at] ^= 1
    with pytest.raises(WrongCode):
        answerer.open_call(bytes(signed))


def test_what_was_said_before_is_refused() -> None:
    caller, answerer = both()
    signed = caller.sign_call(b"said")
    answerer.open_call(signed)
    with pytest.raises(WrongCode):
        answerer.open_call(signed)


def test_what_was_said_on_another_connection_is_refused() -> None:
    caller, _ = both()
    other = Session(KEY, CALLER, b"b" * NONCE_SIZE)
    with pytest.raises(WrongCode):
        other.open_call(caller.sign_call(b"said"))


def test_a_call_is_not_taken_for_an_answer() -> None:
    caller, _ = both()
    with pytest.raises(WrongCode):
        caller.open_answer(caller.sign_call(b"said"))


def on_a_machine(key: bytes = KEY) -> tuple[Session, Session]:
    return (
        Session(KEY, CALLER, ANSWERER, stays_on_machine=True),
        Session(key, CALLER, ANSWERER, stays_on_machine=True),
    )


def test_on_a_machine_both_ends_are_proven_once() -> None:
    caller, answerer = on_a_machine()
    assert answerer.open_call(caller.sign_call(b"first")) == b"first"
    assert caller.sign_call(b"second") == b"second"
    assert answerer.open_call(b"second") == b"second"
    assert caller.open_answer(answerer.sign_answer(b"first")) == b"first"
    assert answerer.sign_answer(b"second") == b"second"
    assert caller.open_answer(b"second") == b"second"


def test_on_a_machine_nothing_is_heard_of_who_is_not_proven() -> None:
    caller, answerer = on_a_machine(b"x" * 32)
    for said in (b"", b"said", caller.sign_call(b"said"), caller.sign_call(b"said")):
        with pytest.raises(WrongCode):
            answerer.open_call(said)
    # Who has heard a call is not proven by that.
    for said in (b"", b"said", answerer.sign_answer(b"said"), answerer.sign_answer(b"said")):
        with pytest.raises(WrongCode):
            caller.open_answer(said)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_nonce_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(WrongCode):
        Session(KEY, b"n" * size, ANSWERER)
