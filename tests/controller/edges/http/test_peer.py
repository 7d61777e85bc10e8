# SPDX-License-Identifier: Apache-2.0
"""A client never sends its token to a process of another user."""

from __future__ import annotations

import os
import socket

import pytest

from controller.edges.http.client import Client, NoAnswer

NOBODY = 65534
PATIENCE_S = 60.0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_token_is_not_sent_to_a_process_of_another_user(host: str) -> None:
    os.seteuid(NOBODY)  # of this thread, which makes the socket
    try:
        listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    finally:
        os.seteuid(0)
    listener.settimeout(PATIENCE_S)
    with listener:
        asked = {"0.0.0.0": "127.0.0.1", "::1": "[::1]"}.get(host, host)
        with pytest.raises(NoAnswer, match=f"a process of user {NOBODY} has taken its port"):
            Client(f"http://{asked}:{listener.getsockname()[1]}", "secret").get("status")
        arrived, _ = listener.accept()
        with arrived:
            arrived.settimeout(PATIENCE_S)
            assert arrived.recv(1000) == b""
