"""What makes an Apache Kafka cluster of ours ask for TLS or for SASL/SCRAM, and what its clients need then.

For tests of how our clients connect: authorities and passwords are made anew each time, and worth nothing elsewhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

MECHANISM = "SCRAM-SHA-512"

#: The user that our clients are, and the one that brokers are among themselves.
CLIENT_USER = "loopwarden"
BROKER_USER = "broker"


@dataclass(frozen=True)
class ClusterSecurity:
    """What ``KafkaCluster`` takes, and the Kafka properties that a client needs, by name."""

    properties: Mapping[str, str]
    client: Mapping[str, str]
    scram_users: Mapping[str, str] = field(default_factory=dict)


def tls(folder: Path, *, mutual: bool = False) -> ClusterSecurity:
    """Return what makes brokers speak TLS; ``mutual``: clients need a certificate too. Files go to the folder."""
    authority = trustme.CA(organization_name="loopwarden tests")
    trusted = folder / "authority.pem"
    authority.cert_pem.write_to_path(trusted)
    keystore = folder / "broker.pem"
    keystore.write_bytes(_key_and_chain(authority.issue_cert("localhost", "127.0.0.1")))
    client = {"security.protocol": "SSL", "ssl.ca.location": str(trusted)}
    if mutual:
        certificate = authority.issue_cert("client.localhost", common_name=CLIENT_USER)
        client |= {"ssl.certificate.location": str(folder / "client.pem"), "ssl.key.location": str(folder / "key.pem")}
        (folder / "client.pem").write_bytes(b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(folder / "key.pem")
    properties = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.client.auth": "required" if mutual else "none",
    }
    return ClusterSecurity(properties, client)


def scram(folder: Path | None = None) -> ClusterSecurity:
    """Return what makes brokers ask for a password (SCRAM-SHA-512): over TLS where there is a folder for its files."""
    users = {CLIENT_USER: secrets.token_urlsafe(12), BROKER_USER: secrets.token_urlsafe(12)}
    encrypted = None if folder is None else tls(folder)
    protocol = "SASL_PLAINTEXT" if encrypted is None else "SASL_SSL"
    login = f'{_LOGIN_MODULE} required username="{BROKER_USER}" password="{users[BROKER_USER]}";'
    properties = {} if encrypted is None else dict(encrypted.properties)
    properties |= {
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,CLIENT:{protocol}",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.client.{MECHANISM.lower()}.sasl.jaas.config": login,
    }
    client = {} if encrypted is None else dict(encrypted.client)
    client |= {
        "security.protocol": protocol,
        "sasl.mechanism": MECHANISM,
        "sasl.username": CLIENT_USER,
        "sasl.password": users[CLIENT_USER],
    }
    return ClusterSecurity(properties, client, users)


_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def _key_and_chain(certificate: trustme.LeafCert) -> bytes:
    """Return a PEM keystore. Kafka takes keys as PKCS #8 only, which is not how trustme writes them."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return written + b"".join(pem.bytes() for pem in certificate.cert_chain_pems)
