# SPDX-License-Identifier: Apache-2.0
"""Unauthenticated peers at the listeners delay no agent and exhaust no resource."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from api import agent_pb2 as pb
from controller.edges.agentlink import listener as agent_listener
from controller.edges.agentlink import server, session
from controller.edges.agentlink.connection import AgentConnection
from controller.edges.trust import admission
from controller.edges.trust.admission import Familiar
from controller.edges.trust.refusals import AgencyError, Refusals
from controller.model.settings import AgentService, Endpoint
from controller.protocol.reports import AgentClosed, AgentOpened, Reported, Role
from tests.controller.edges.agentlink.agent import HELLO, PATIENCE_S, Identity, connected, key_pem, pem
from tests.controller.edges.agentlink.fake_controller import FakeController, Log, bind, refused
from tests.controller.edges.openflow.switches import until

TREE = Path(__file__).resolve().parents[4]


def silent_tls_client(fake_controller: FakeController) -> ssl.SSLSocket:
    """Return a connection that sends nothing after its handshake."""
    return connected(fake_controller.agents.join, fake_controller.ca_pem)


def read_to_the_end(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def test_unfinished_handshake_times_out(
    fake_controller: FakeController, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_listener, "HANDSHAKE_WITHIN_S", 0.2)
    at = fake_controller.agents.listen
    with socket.create_connection((at.host, at.port), timeout=PATIENCE_S) as plain:
        plain.sendall(b"\x16\x03\x01\x02\x00")
        read_to_the_end(plain)
    assert "0.2 seconds" in refused(fake_controller, log, "handshake")


def open_connections() -> int:
    return sum(isinstance(each, AgentConnection) for each in gc.get_objects())


def test_closed_connections_need_no_garbage_collection(fake_controller: FakeController) -> None:
    at = fake_controller.agents.listen
    gc.collect()
    before = open_connections()
    gc.disable()
    try:
        for _ in range(20):
            with socket.create_connection((at.host, at.port), timeout=PATIENCE_S):
                pass
        ended = lambda: (fake_controller.agents.refusals()["handshake"], open_connections()) == (20, before)  # noqa: E731
        until(ended, "each is counted and released", PATIENCE_S)  # no event reports that
    finally:
        gc.enable()


def test_join_connection_times_out(build: Callable[[], FakeController], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "JOINING_WITHIN_S", 0.2)
    fake_controller = build()
    with silent_tls_client(fake_controller) as connection:
        read_to_the_end(connection)


@pytest.fixture
def few_places(monkeypatch: pytest.MonkeyPatch) -> int:
    """Allow few connections, with timeouts too long to free one."""
    monkeypatch.setattr(agent_listener, "MOST_STRANGERS", 8)
    monkeypatch.setattr(agent_listener, "MOST_JOINING", 8)
    monkeypatch.setattr(agent_listener, "HANDSHAKE_WITHIN_S", 30 * PATIENCE_S)
    monkeypatch.setattr(server, "JOINING_WITHIN_S", 30 * PATIENCE_S)
    return 8


def silent_client(at: Endpoint, beginning: bytes = b"", host: str = "127.0.0.1") -> socket.socket:
    plain = socket.create_connection((at.host, at.port), timeout=PATIENCE_S, source_address=(host, 0))
    plain.sendall(beginning)
    return plain


@pytest.mark.parametrize("beginning", [b"", b"\x16\x03\x01\x02\x00"], ids=["not begun", "begun"])
def test_unauthenticated_peers_do_not_keep_an_agent_out(
    few_places: int, build: Callable[[], FakeController], log: Log, beginning: bytes
) -> None:
    fake_controller = build()
    identity = fake_controller.enrolled("phone")
    with contextlib.ExitStack() as stack:
        strangers = [
            stack.enter_context(silent_client(at, beginning))
            for at in (fake_controller.agents.listen, fake_controller.agents.join)
            for _ in range(few_places)
        ]
        fake_controller.served(identity)
        assert "the oldest of more than 8" in log.get(timeout=PATIENCE_S).getMessage()
        read_to_the_end(strangers[0])
        fake_controller.enrolled("laptop")
        read_to_the_end(strangers[few_places])


def test_silent_tls_clients_do_not_keep_a_join_out(few_places: int, build: Callable[[], FakeController]) -> None:
    fake_controller = build()
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(silent_tls_client(fake_controller)) for _ in range(few_places)]
        fake_controller.enrolled("phone")
        read_to_the_end(strangers[0])


def test_listeners_full_of_peers_use_less_than_60_mb(build: Callable[[], FakeController]) -> None:
    """The figure counts the client ends of the connections too, which are in this process."""
    fake_controller, some = build(), 100
    places = (agent_listener.MOST_STRANGERS, agent_listener.MOST_JOINING)
    with contextlib.ExitStack() as stack:
        before = resident_bytes()
        for _ in range(some):
            for at in (fake_controller.agents.listen, fake_controller.agents.join):
                stack.enter_context(silent_client(at, b"\x16\x03\x01\x02\x00"))
        until(lambda: open_connections() >= 2 * some, "they are accepted, without an event", PATIENCE_S)
        each = (resident_bytes() - before) / (2 * some)
    assert sum(places) * each < 60e6


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_host_with_too_many_connections_is_refused_alone(
    fake_controller: FakeController, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = fake_controller.enrolled("phone")
    monkeypatch.setattr(admission, "EACH_S", 0.01)
    monkeypatch.setattr(admission, "BURST_S", 400)  # so four at once, for new hosts
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(silent_client(fake_controller.agents.listen, host="127.0.0.3")) for _ in range(5)]
        read_to_the_end(many[4])
        assert "limit of 0.01 connections per second from that host" in log.get(timeout=PATIENCE_S).getMessage()
        assert fake_controller.agents.refusals()["rate"] == 1
        fake_controller.served(identity)


def test_accept_yields_to_connections_that_wait(fake_controller: FakeController) -> None:
    """The kernel always has another connection ready."""
    seen: list[str] = []

    class Watched(agent_listener.AgentListener):
        def _receive(self, sock: socket.socket, place: agent_listener.ConnectionSlot) -> None:
            seen.append("taken")
            super()._receive(sock, place)

        async def _attend(self, sock: socket.socket, place: agent_listener.ConnectionSlot) -> None:
            seen.append("attended")
            sock.close()

    async def nobody(_: AgentConnection) -> None:
        raise AssertionError("no handshake was made")

    async def serve() -> None:
        listener = agent_listener.listening(Endpoint("127.0.0.1", 0), "listen")
        at = Endpoint(*listener.getsockname())
        waiting = [silent_client(at) for _ in range(5)]
        watched = Watched(listener, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), nobody, set(), Refusals(), Familiar())
        serving = asyncio.create_task(watched.serve())
        while seen.count("taken") < len(waiting):
            await asyncio.sleep(0)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        for each in waiting:
            each.close()

    asyncio.run(serve())
    assert seen == ["taken", "attended"] * 5


@pytest.mark.parametrize("listener", ["listen", "join"])
def test_client_with_an_older_tls_is_refused(
    fake_controller: FakeController, log: Log, tmp_path: Path, listener: str
) -> None:
    identity = fake_controller.enrolled("phone")
    (tmp_path / "phone.pem").write_bytes(key_pem(identity.key) + pem(identity.certificate))
    context = ssl.create_default_context(cadata=fake_controller.ca_pem.decode())
    context.load_cert_chain(tmp_path / "phone.pem")
    at = getattr(fake_controller.agents, listener)
    for newest, welcome in ((ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)):
        context.maximum_version = newest
        with socket.create_connection((at.host, at.port), timeout=PATIENCE_S) as plain:
            if welcome:
                context.wrap_socket(plain, server_hostname="bicast-controller").close()
            else:
                with pytest.raises(ssl.SSLError):
                    context.wrap_socket(plain, server_hostname="bicast-controller")
    assert "UNSUPPORTED_PROTOCOL" in refused(fake_controller, log, "handshake")


def served(fake_controller: FakeController, identity: Identity) -> bool:
    stream = fake_controller.stream(identity)
    stream.say(HELLO)
    return isinstance(stream.any_word(), pb.FromController)


def test_agents_beyond_the_limit_are_refused(
    build: Callable[[], FakeController], monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setattr(agent_listener, "MOST", 1)
    fake_controller = build()
    # Only the stream counts towards the limit: enrolled() has ended its join connection.
    stream, _ = fake_controller.served(fake_controller.enrolled("phone"))
    laptop = fake_controller.enrolled("laptop")
    assert fake_controller.stream(laptop).ended().cause is None
    assert "1 connections are open" in refused(fake_controller, log, "crowd")
    stream.close()
    fake_controller.closed()
    while not served(fake_controller, laptop):  # until the listener has removed the closed stream
        pass


def test_connection_without_a_hello_is_closed(fake_controller: FakeController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "HELLO_WITHIN_S", 0.2)
    fake_controller.stream(fake_controller.enrolled("phone"), reads=0).lost()


def test_one_certificate_is_limited_in_connections(
    fake_controller: FakeController, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_listener, "MOST_OF_A_NAME", 1)
    identity = fake_controller.enrolled("phone")
    fake_controller.served(identity)
    assert fake_controller.stream(identity).ended().cause is None
    assert "'phone'" in refused(fake_controller, log, "crowd")
    fake_controller.served(fake_controller.enrolled("laptop"))


def test_unavailable_address_is_named(fake_controller: FakeController, tmp_path: Path) -> None:
    for service, key in (
        (AgentService(fake_controller.agents.listen, Endpoint("127.0.0.1", 0), str(tmp_path / "other")), "listen"),
        (AgentService(Endpoint("127.0.0.1", 0), Endpoint("192.0.2.1", 8656), str(tmp_path / "other")), "join"),
    ):
        with pytest.raises(AgencyError, match=rf"set controller\.agents\.{key} "):
            server.Agents(service, lambda *_: None, bind)


def test_vanished_host_is_noticed(
    build: Callable[[], FakeController], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would keep its connection for hours."""
    monkeypatch.setattr(session, "QUIET_S", 2.0)
    monkeypatch.setattr(session, "ANSWERS_WITHIN_S", 1.0)
    fake_controller = build()
    program, directory = TREE / "build" / "bicast-agent", str(tmp_path / "phone")
    token = fake_controller.agents.invite("phone", Role.TERMINAL).token
    words = ["join", str(fake_controller.agents.join), "--name", "phone", "--token", token, "--directory", directory]
    subprocess.run([program, *words], check=True, capture_output=True)
    agent = subprocess.Popen([program, "run", "--directory", directory], stderr=subprocess.DEVNULL)
    try:
        fake_controller.event(AgentOpened)
        fake_controller.event(Reported)
        agent.send_signal(signal.SIGSTOP)
        while isinstance(event := fake_controller.any_event(), Reported):
            pass
        assert event == AgentClosed(event.session, "silent for 3 s")
        agent.send_signal(signal.SIGCONT)
        fake_controller.event(AgentOpened)
    finally:
        agent.kill()
        agent.wait()
