# SPDX-License-Identifier: Apache-2.0
"""TLS of the listeners: a server's context, and the limit of a handshake."""

from __future__ import annotations

import ssl

from controller.edges.state.files import readable
from controller.model.settings import MutualTls, Tls

HANDSHAKE_WITHIN_S = 5.0


class TlsError(Exception):
    """A certificate or key is unusable. The sentence names the file."""


def server_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(readable(tls.certificate), readable(tls.key))
    except OSError as error:
        raise TlsError(
            f"TLS certificate {tls.certificate} with key {tls.key}: {error}; expected a PEM certificate and its key"
        ) from error
    if isinstance(tls, MutualTls):
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(readable(tls.ca))
        except OSError as error:
            raise TlsError(f"TLS authority {tls.ca}: {error}; expected PEM certificates") from error
    return context
