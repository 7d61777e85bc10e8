# SPDX-License-Identifier: Apache-2.0
"""Routes to the server: direct, over gateway and relay, or other proxies."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.relay.cost.topology import GATEWAY, INTERCEPTED, LEFT_ALONE, RELAY, TERMINALS, PathTopo
from lab.processes.controller import LOOK_EVERY_S, TREE
from lab.stage import command, isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import RECEIVE_BUFFER_SYSCTL, Machine
from lab.stage.stage import Stage, raised

# Certificates of one authority, made by openssl as in docs/how-to/relay.md

RELAY_NAME, GATEWAY_NAME = "tokyo", "home"


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    certificate: Path
    key: Path
    authority: Path

    @property
    def words(self) -> tuple[str, ...]:
        return ("--certificate", str(self.certificate), "--key", str(self.key), "--ca", str(self.authority))

    def joined(self) -> Path:
        file = self.certificate.with_suffix(".both")
        file.write_text(self.certificate.read_text() + self.key.read_text())
        return file


def issue(directory: Path) -> tuple[Identity, Identity]:
    authority, key = directory / "ca.pem", directory / "ca.key"
    _openssl(authority, key, "relays", "basicConstraints=critical,CA:TRUE")
    relay = _leaf(directory, RELAY_NAME, "serverAuth")
    gateway = _leaf(directory, GATEWAY_NAME, "clientAuth")
    return relay, gateway


def _leaf(directory: Path, name: str, purpose: str) -> Identity:
    one = Identity(name, directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")
    signer = ("-CA", str(one.authority), "-CAkey", str(directory / "ca.key"))
    extensions = ("basicConstraints=critical,CA:FALSE", f"subjectAltName=DNS:{name}", f"extendedKeyUsage={purpose}")
    _openssl(one.certificate, one.key, name, *extensions, signer=signer)
    return one


def _openssl(certificate: Path, key: Path, name: str, *extensions: str, signer: tuple[str, ...] = ()) -> None:
    added = (word for extension in extensions for word in ("-addext", extension))
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2", "-subj", f"/CN={name}")
    files = ("-keyout", str(key), "-out", str(certificate))
    command.run("openssl", "req", "-x509", "-config", "/dev/null", *signer, *kind, *added, *files)


# Both ends: `bicast-agent relay` at the relay, `take` at the gateway

AGENT = TREE / "build" / "bicast-agent"
TAKE_PORT = 5000  # gateway's loopback, for intercepted connections
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ProcessPair:
    """Both ends' process ids."""

    gateway: int
    relay: int


@contextmanager
def running_pair(
    gateway: Machine, relay: Machine, listener: str, ports: str, taking: Sequence[str], serving: Sequence[str] = ()
) -> Iterator[ProcessPair]:
    """Run both ends. `listener` is the relay's ADDRESS:PORT, `ports` are the servers'.

    `taking` and `serving` are more options of `take` and `relay`.
    """
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pair-", dir=isolate.RUN_DIRECTORY)))
        theirs, ours = issue(place)
        guests = ("--gateway", ours.name, "--allow-ports", ports)
        serve = (str(AGENT), "relay", "--listen", listener, *guests, *theirs.words, *serving)
        relaying = stack.enter_context(running(relay, serve, place / "relay.log"))
        towards = ("--relay", listener, "--name", theirs.name, "--port", str(TAKE_PORT), "--fallback", "block")
        take = (str(AGENT), "take", *towards, *ours.words, *taking)
        took = stack.enter_context(running(gateway, take, place / "take.log"))
        await_start(relaying, relay, place / "relay.log")
        await_start(took, gateway, place / "take.log")
        yield ProcessPair(took.pid, relaying.pid)


@contextmanager
def running(machine: Machine, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as complaints:
        process = machine.popen([*words], stdout=subprocess.PIPE, stderr=complaints, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def await_start(process: subprocess.Popen[str], machine: Machine, log: Path) -> None:
    assert process.stdout is not None
    if not process.stdout.readline():
        process.wait()
        raise ExperimentFailed(f"{machine.name}: {log.stem} did not start; its log: {log.read_text().strip()}")


# All routes run and take turns. Other proxies get a comparable setup: MPTCP between gateway and relay, TLS 1.3 with
# certificates of both sides. A missing proxy is left out.

DIRECT, PAIR, HAPROXY, SING_BOX = "direct", "pair", "HAProxy", "sing-box"
NAMES = (DIRECT, PAIR, HAPROXY, SING_BOX)
WEB = 80
RELAY_LISTENER = f"{RELAY}:4433"
PORTS = {HAPROXY: 7001, SING_BOX: 7002}  # at both sides
MAX_CONNECTIONS = 9000
LISTEN_STATE = "0A"  # in /proc/net/tcp
LISTEN_TIMEOUT_S = 10.0
USER = "5c1e0a52-53ab-4d4c-9d7a-3a37c9a6e1f0"  # sing-box needs one besides the certificates


@dataclass(frozen=True, slots=True)
class TrafficRoute:
    """The terminal's destination, and the processes that relay it."""

    name: str
    address: str
    port: int = WEB
    gateway: int | None = None
    relay: int | None = None


@contextmanager
def run_routes(net: Stage, names: tuple[str, ...] = NAMES) -> Iterator[list[TrafficRoute]]:
    with ExitStack() as stack:
        yield [stack.enter_context(MAKERS[name](net)) for name in names if _installed(name)]


def _installed(name: str) -> bool:
    return name in (DIRECT, PAIR) or shutil.which(name.lower()) is not None


@contextmanager
def _direct(_net: Stage) -> Iterator[TrafficRoute]:
    yield TrafficRoute(DIRECT, LEFT_ALONE)


@contextmanager
def _pair(net: Stage) -> Iterator[TrafficRoute]:
    taking = ("--inside", "left", "--from", TERMINALS, "--except", f"{LEFT_ALONE}/32")
    with running_pair(net.machine("gateway"), net.machine("relay"), RELAY_LISTENER, str(WEB), taking) as pair:
        yield TrafficRoute(PAIR, INTERCEPTED, gateway=pair.gateway, relay=pair.relay)


def _other(name: str, words: tuple[str, ...], ends: Callable[[Identity, Identity], tuple[str, str]]) -> Maker:
    """Return a proxy's maker: `words` start it on a file; `ends` returns the gateway's and relay's configuration."""

    @contextmanager
    def made(net: Stage) -> Iterator[TrafficRoute]:
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}-", dir=isolate.RUN_DIRECTORY)))
            theirs, ours = issue(place)
            pids = []
            for machine, text in zip(("gateway", "relay"), ends(ours, theirs), strict=True):
                written, log = place / machine, place / f"{machine}.log"
                written.write_text(text)
                process = stack.enter_context(running(net.machine(machine), (*words, str(written)), log))
                _await_listening(process, net.machine(machine), name, log)
                pids.append(process.pid)
            yield TrafficRoute(name, GATEWAY, PORTS[name], *pids)

    return made


def _await_listening(process: subprocess.Popen[str], machine: Machine, name: str, log: Path) -> None:
    """Wait until the proxy listens; it gives no sign of its own."""
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while not any(
        row.split()[1].endswith(f":{PORTS[name]:04X}") and row.split()[3] == LISTEN_STATE
        for row in Path(f"/proc/{machine.pid}/net/tcp").read_text().splitlines()
    ):
        if process.poll() is not None or time.monotonic() > deadline:
            raise ExperimentFailed(
                f"{machine.name}: {name} does not listen on port {PORTS[name]} after "
                f"{LISTEN_TIMEOUT_S:.0f} s; its log: {log.read_text().strip()[-500:] or 'nothing'}"
            )
        time.sleep(LOOK_EVERY_S)


def _haproxy(ours: Identity, theirs: Identity) -> tuple[str, str]:
    common = (
        f"global\n maxconn {MAX_CONNECTIONS}\ndefaults\n mode tcp\n maxconn {MAX_CONNECTIONS}\n timeout connect 10s\n"
    )
    common += " timeout client 1h\n timeout server 1h\nlisten one\n"
    verified = f"ca-file {ours.authority} verify required"
    port = PORTS[HAPROXY]
    towards = f"{RELAY}:{port} ssl crt {ours.joined()} {verified} verifyhost {theirs.name} sni str({theirs.name})"
    gateway = f" bind {GATEWAY}:{port}\n server relay {towards} force-tlsv13\n"
    relay = f" bind {RELAY}:{port} ssl crt {theirs.joined()} {verified} force-tlsv13\n server web {LEFT_ALONE}:{WEB}\n"
    return common + gateway, common + relay


def _sing_box(ours: Identity, theirs: Identity) -> tuple[str, str]:
    port, paths = PORTS[SING_BOX], {"tcp_multi_path": True}
    at_relay = {"server": RELAY, "server_port": port, "uuid": USER, **paths}
    verified = {"enabled": True, "min_version": "1.3"}
    own = {"client_certificate_path": str(ours.certificate), "client_key_path": str(ours.key)}
    asks = {**verified, "server_name": theirs.name, "certificate_path": str(ours.authority), **own}
    fixed = {"override_address": LEFT_ALONE, "override_port": WEB}
    gateway = {
        "inbounds": [{"type": "direct", "listen": GATEWAY, "listen_port": port, "network": "tcp", **fixed}],
        "outbounds": [{"type": "vless", **at_relay, "tls": asks}],
    }
    shows = {"certificate_path": str(theirs.certificate), "key_path": str(theirs.key)}
    wants = {"client_authentication": "require-and-verify", "client_certificate_path": [str(theirs.authority)]}
    listener = {"listen": RELAY, "listen_port": port, **paths, "users": [{"uuid": USER}]}
    relay = {
        "inbounds": [{"type": "vless", **listener, "tls": {**verified, **shows, **wants}}],
        "outbounds": [{"type": "direct"}],
    }
    quiet = {"log": {"level": "error"}}
    return json.dumps(quiet | gateway), json.dumps(quiet | relay)


Maker = Callable[[Stage], AbstractContextManager[TrafficRoute]]
MAKERS: dict[str, Maker] = {
    DIRECT: _direct,
    PAIR: _pair,
    HAPROXY: _other(HAPROXY, ("mptcpize", "run", "haproxy", "-db", "-f"), _haproxy),
    SING_BOX: _other(SING_BOX, ("sing-box", "run", "-c"), _sing_box),
}


TRAFFIC = Path(__file__).with_name("traffic.py")
PATIENCE_S = 600.0
ANSWER_TIMEOUT_S = 10.0
# Closed connections keep their ports for a minute; allow all ports, and their reuse.
PORT_SETTINGS = ("net.ipv4.ip_local_port_range=1024 65535", "net.ipv4.tcp_tw_reuse=1")


@contextmanager
def running_routes(
    delay_ms: float = 0.0, names: tuple[str, ...] = NAMES, receive: str = RECEIVE_BUFFER_SYSCTL
) -> Iterator[tuple[Stage, list[TrafficRoute]]]:
    """Run path, server and the installed routes, once each answers.

    `receive` is all machines' receive buffer.
    """
    with raised(PathTopo(delay_ms=delay_ms)) as net:
        machines: list[Machine] = net.hosts
        for machine in machines:
            machine.run("sysctl", "--quiet", "--write", receive, *PORT_SETTINGS)
        words = [sys.executable, str(TRAFFIC), "serve", str(WEB)]
        server = net.machine("server").popen(words, stdin=subprocess.PIPE, stderr=None, text=True)
        try:
            if server.stdout is None or server.stdout.readline() != "ready\n":
                raise ExperimentFailed("the server did not start; its error is above")
            with run_routes(net, names) as ways:
                for way in ways:
                    _await_answer(net, way)
                yield net, ways
        finally:
            server.kill()
            server.communicate()


def _await_answer(net: Stage, way: TrafficRoute) -> None:
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while not ask(net, "first", way, 1):
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"the server did not answer over {way.name} within {ANSWER_TIMEOUT_S:.0f} s")


def ask(net: Stage, what: str, way: TrafficRoute, *words: object) -> list[dict[str, float]]:
    done = net.machine("terminal").run(*words_of(what, way, *words), timeout_s=PATIENCE_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def words_of(what: str, way: TrafficRoute, *words: object) -> list[str]:
    return [sys.executable, str(TRAFFIC), what, way.address, str(way.port), *map(str, words)]
