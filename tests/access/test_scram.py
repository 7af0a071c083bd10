"""What is kept of a password is what RFC 7677 says, and shows nothing of it."""

import base64
import hashlib
import hmac

import pytest

from semel.access.scram import Mechanism, credential, of_salted, pretended


def test_the_keys_of_the_example_in_rfc_7677_answer_its_proof_and_signature() -> None:
    """User `user`, password `pencil`: the whole exchange stands in the RFC."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = credential(Mechanism.SCRAM_SHA_256, b"pencil", salt, 4096)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    said = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,"
    signed = f"{said}r={nonce}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(kept.stored_key, signed, "sha256")
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == kept.stored_key
    verifier = base64.b64encode(hmac.digest(kept.server_key, signed, "sha256"))
    assert verifier == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_password_is_known_by_its_keys(mechanism: Mechanism) -> None:
    kept = credential(mechanism, b"right", b"salt", 4096)
    assert len(kept.stored_key) == len(kept.server_key) == mechanism.key_size
    assert kept.is_of(b"right")
    assert not kept.is_of(b"wrong")
    salted = hashlib.pbkdf2_hmac(mechanism.digest, b"right", b"salt", 4096)
    assert of_salted(mechanism, salted, b"salt", 4096) == kept


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_user_that_there_is_not_has_the_same_salt_each_time(mechanism: Mechanism) -> None:
    one, again = (pretended(mechanism, "nobody", b"key") for _ in range(2))
    assert one == again
    assert len({pretended(mechanism, name, b"key").salt for name in ("a", "b", "c")}) == 3
    assert pretended(mechanism, "nobody", b"other").salt != one.salt
    real = credential(mechanism, b"p", bytes(16))
    assert (len(one.salt), one.iterations) == (16, real.iterations)
    assert len(one.stored_key) == len(real.stored_key)


def test_a_credential_shows_no_key() -> None:
    kept = credential(Mechanism.SCRAM_SHA_256, b"p", b"0123456789abcdef", 4096)
    for text in (repr(kept), str(kept), f"{kept}"):
        assert text == "Credential(SCRAM-SHA-256, 4096 iterations, …)"
