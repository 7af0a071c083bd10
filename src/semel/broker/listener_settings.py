"""What an operator may set of where a broker is found, and of who may come in."""

from dataclasses import dataclass
from typing import Final

from semel.broker.setting import INT32_MAX, Secret, Url, setting

STORES: Final = ("PEM", "JKS", "PKCS12")


@dataclass(frozen=True, kw_only=True)
class ListenerSettings:
    node_id: int = setting(1, "The broker's number in Metadata.", most=INT32_MAX, is_fixed=True)
    listeners: str = setting(
        "",
        "Where to listen, as NAME://HOST:PORT, separated by commas; empty: PLAINTEXT on "
        "127.0.0.1:9092. `--listen` is a short form of it.",
        is_fixed=True,
        is_text=True,
    )
    advertised_listeners: str = setting(
        "",
        "Where clients find these listeners, as NAME://HOST:PORT; HOST:PORT alone is for the only "
        "one. Those that are not named: the address that each client came to.",
        is_fixed=True,
        is_text=True,
    )
    listener_security_protocol_map: str = setting(
        "",
        "How listeners are secured, as NAME:PROTOCOL, separated by commas: PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL. Those that are called as a protocol need not be named.",
        is_fixed=True,
        is_text=True,
    )
    inter_broker_listener_name: str = setting(
        "",
        "The listener at which nodes on a store find each other, and `semel cluster` finds them; "
        "empty: the first.",
        is_fixed=True,
        is_text=True,
    )
    allow_unauthenticated: bool = setting(
        default=False,
        about="Let everybody in who reaches a listener beyond this machine that asks nobody who "
        "they are.",
        of_listeners=True,
    )
    ssl_keystore_location: str = setting(
        "",
        "A file with the certificate of the listener, those that lead to its root, and the key: "
        "PEM, or a store of Java's. It is read anew when it changes, and upon SIGHUP.",
        is_text=True,
        of_listeners=True,
    )
    ssl_keystore_type: str = setting(
        "PEM",
        "PEM, JKS or PKCS12; the file itself says which it is.",
        one_of=STORES,
        of_listeners=True,
    )
    ssl_keystore_password: str = setting(
        Secret(),
        "Of a store of Java's: { file = PATH } or { env = NAME }.",
        of_listeners=True,
    )
    ssl_key_location: str = setting(
        "",
        "A PEM file with the key, if it does not stand beside the certificate.",
        is_text=True,
        of_listeners=True,
    )
    ssl_key_password: str = setting(
        Secret(),
        "What the key is encrypted with, in a store of Java's if it is not the password of that: "
        "{ file = PATH } or { env = NAME }.",
        of_listeners=True,
    )
    ssl_truststore_location: str = setting(
        "",
        "A file of those who may have signed the certificates of clients, and of other nodes: PEM, "
        "or a store of Java's.",
        is_text=True,
        of_listeners=True,
    )
    ssl_truststore_type: str = setting(
        "PEM",
        "PEM, JKS or PKCS12; the file itself says which it is.",
        one_of=STORES,
        of_listeners=True,
    )
    ssl_truststore_password: str = setting(
        Secret(),
        "Of a store of Java's: { file = PATH } or { env = NAME }.",
        of_listeners=True,
    )
    ssl_client_auth: str = setting(
        "none",
        "Whether clients show a certificate: required, requested or none.",
        one_of=("none", "requested", "required"),
        of_listeners=True,
    )
    ssl_principal_mapping_rules: str = setting(
        "DEFAULT",
        "What a client is called by the name in its certificate: RULE:pattern/replacement/ with L "
        "or U behind it, the first that fits, or DEFAULT.",
        is_text=True,
        of_listeners=True,
    )
    ssl_enabled_protocols: str = setting(
        "TLSv1.2,TLSv1.3", "Versions of TLS.", is_text=True, of_listeners=True
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "https",
        "How nodes check where their calls arrive: https, or empty to take the certificate of any "
        "host.",
        is_text=True,
        of_listeners=True,
    )
    sasl_enabled_mechanisms: str = setting(
        "SCRAM-SHA-256,SCRAM-SHA-512",
        "How clients may sign in: SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, and over TLS PLAIN.",
        is_text=True,
        of_listeners=True,
    )
    sasl_server_max_receive_size: int = setting(
        64 * 2**10,
        "Bytes that a client may send before it has signed in.",
        least=4096,
        most=2**20,
        of_listeners=True,
    )
    connections_max_reauth_ms: int = setting(
        0,
        "After this time a client has to sign in again; 0: when its token has expired.",
        of_listeners=True,
    )
    connection_failed_authentication_delay_ms: int = setting(
        100, "A sign-in that failed is answered after this time.", most=10_000, is_fixed=True
    )
    signin_timeout_ms: int = setting(
        10_000,
        "So long a client may take for a TLS handshake and to sign in.",
        least=100,
        most=600_000,
        is_fixed=True,
    )
    signin_max_connections: int = setting(
        1000,
        "Connections on which nobody has signed in yet; the oldest makes room for the next.",
        least=1,
        is_fixed=True,
    )
    signin_max_connections_per_ip: int = setting(
        20, "The same of one address; more are closed at once.", least=1, is_fixed=True
    )
    sasl_oauthbearer_jwks_endpoint_url: str = setting(
        Url(),
        "Where the keys are found that tokens are signed with: https://… or file:///PATH. It is "
        "shown without its query.",
        of_listeners=True,
    )
    sasl_oauthbearer_expected_audience: str = setting(
        "",
        "Whom a token has to be for; one of several, separated by commas.",
        is_text=True,
        of_listeners=True,
    )
    sasl_oauthbearer_expected_issuer: str = setting(
        "", "Who has to have given a token.", is_text=True, of_listeners=True
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        "sub", "What of a token says who it is.", is_text=True, of_listeners=True
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        30, "So far the clock of who gives tokens may go wrong.", most=3600, of_listeners=True
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        3_600_000, "The keys are read anew after this time.", least=1000, of_listeners=True
    )
    https_ca_location: str = setting(
        "",
        "A PEM file of those who may have signed the certificate of where the keys are found.",
        is_text=True,
        of_listeners=True,
    )
    proxy_protocol_from: str = setting(
        "",
        "Addresses of proxies that say by PROXY protocol v2 for whom they connect, as "
        "10.0.0.0/24, separated by commas.",
        is_text=True,
        of_listeners=True,
    )
    initial_users: str = setting(
        "",
        'A TOML file of users and their passwords, as ana = "…". Those that there are not are '
        "made at the start, and when the broker comes to lead.",
        is_fixed=True,
        is_text=True,
    )
    max_connections: int = setting(
        10_000,
        "Connections; more are closed at once. Behind `listener.name.NAME.`, those of a listener. "
        "Nodes with a listener of their own come in nevertheless, and a silent client goes.",
        least=1,
        is_limit=True,
    )
    max_connection_creation_rate: int = setting(
        INT32_MAX,
        "New connections each second; more are closed at once. Behind `listener.name.NAME.`, those "
        "of a listener.",
        least=1,
        most=INT32_MAX,
        is_limit=True,
    )
    max_connections_per_ip: int = setting(
        INT32_MAX, "Connections of one address; more are closed at once.", least=1, most=INT32_MAX
    )
