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


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_nonce_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(WrongCode):
        Session(KEY, b"n" * size, ANSWERER)
