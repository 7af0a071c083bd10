"""Certificates that a test trusts, of a broker on this machine and of its clients."""

import datetime
from pathlib import Path

import trustme


class Authority:
    """Writes what it gives into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.trusted = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.trusted)

    def certificate(
        self,
        name: str,
        *identities: str,
        key_type: trustme.KeyType = trustme.KeyType.ECDSA,
        is_expired: bool = False,
    ) -> Path:
        """Of these hosts, of this machine if none is named, with the key in the same file."""
        end = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) if is_expired else None
        issued = self._authority.issue_cert(
            *(identities or ("localhost", "127.0.0.1")),
            common_name=name,
            organization_name="Semel Ltd",
            not_after=end,
            key_type=key_type,
        )
        file = self._folder / f"{name}.pem"
        # In one step, as those who renew certificates do it.
        made = file.with_suffix(".new")
        made.write_bytes(
            issued.private_key_pem.bytes()
            + b"".join(each.bytes() for each in issued.cert_chain_pems)
        )
        return made.rename(file)
