"""Tokens as an OpenID provider signs them, and as others would like to."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm


def tokens(folder: Path) -> Callable[..., str]:
    """Signs what it is given, and leaves the key behind by which that can be checked."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    (folder / "keys.json").write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    def signed(algorithm: str = "RS256", kid: str = "one", **claims: object) -> str:
        now = int(time.time())
        said = {"iss": "us", "aud": "semel", "sub": "ana", "exp": now + 60, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        if algorithm == "HS256":
            # PyJWT would not do so; others do.
            head, body, _ = jwt.encode(said, "k" * 32, "HS256", {"kid": kid}).split(".")
            mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
            proof = mac.sign(f"{head}.{body}".encode(), pem)
            return f"{head}.{body}.{jwt.utils.base64url_encode(proof).decode()}"
        used = None if algorithm == "none" else key
        return jwt.encode(said, used, algorithm, {"kid": kid})  # type: ignore[arg-type]

    return signed
