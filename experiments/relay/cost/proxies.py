# SPDX-License-Identifier: Apache-2.0
"""The ways by which a terminal's connection reaches the server: direct, this product's pair, or another's two ends."""

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

from experiments.relay.cost.road import GATEWAY, LEFT_ALONE, RELAY, TAKEN, TERMINALS, RoadTopo
from lab.processes.controller import LOOK_EVERY_S, TREE
from lab.stage import command, isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import RECEIVE_BUFFER_SYSCTL, Machine
from lab.stage.stage import Stage, raised

# Certificates of a relay and a gateway, of one authority, by openssl as in docs/how-to/relay.md.

RELAY_NAME, GATEWAY_NAME = "tokyo", "home"


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    certificate: Path
    key: Path
    authority: Path

    @property
    def words(self) -> tuple[str, ...]:
        """As the agent's options."""
        return ("--certificate", str(self.certificate), "--key", str(self.key), "--ca", str(self.authority))

    def joined(self) -> Path:
        """Certificate and key in one file."""
        file = self.certificate.with_suffix(".both")
        file.write_text(self.certificate.read_text() + self.key.read_text())
        return file


def issue(directory: Path) -> tuple[Identity, Identity]:
    """The relay's, and its gateway's."""
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


# This product's pair, as processes: `bicast-agent relay` at the relay, `take` at the gateway.

AGENT = TREE / "build" / "bicast-agent"
TAKE_PORT = 5000  # of the gateway's loopback, to which it leads what it takes
STOPS_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Their process ids."""

    gateway: int
    relay: int


@contextmanager
def paired(
    gateway: Machine, relay: Machine, door: str, ports: str, taking: Sequence[str], serving: Sequence[str] = ()
) -> Iterator[Pair]:
    """`door` is the relay's ADDRESS:PORT, `ports` those of servers; the others are options of `take` and of `relay`."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pair-", dir=isolate.RUN_DIRECTORY)))
        theirs, ours = issue(place)
        guests = ("--gateway", ours.name, "--allow-ports", ports)
        serve = (str(AGENT), "relay", "--listen", door, *guests, *theirs.words, *serving)
        relaying = stack.enter_context(running(relay, serve, place / "relay.log"))
        towards = ("--relay", door, "--name", theirs.name, "--port", str(TAKE_PORT), "--fallback", "block")
        take = (str(AGENT), "take", *towards, *ours.words, *taking)
        took = stack.enter_context(running(gateway, take, place / "take.log"))
        began(relaying, relay, place / "relay.log")
        began(took, gateway, place / "take.log")
        yield Pair(took.pid, relaying.pid)


@contextmanager
def running(machine: Machine, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A program until the block ends; what it complains of is in `log`."""
    with log.open("w") as complaints:
        process = machine.popen([*words], stdout=subprocess.PIPE, stderr=complaints, text=True)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def began(process: subprocess.Popen[str], machine: Machine, log: Path) -> None:
    """Of a verb of the agent: it says a line."""
    assert process.stdout is not None
    if not process.stdout.readline():
        process.wait()
        raise ExperimentFailed(f"{machine.name}: {log.stem} did not begin, but said: {log.read_text().strip()}")


# All ways stand at the same time and take turns; those that are not measured idle. The other proxies get what makes
# them comparable: MPTCP between gateway and relay, TLS 1.3 with certificates of both sides. They are never fetched: one
# that is not installed is left out, with a note.

DIRECT, PAIR, HAPROXY, SING_BOX = "direct", "pair", "HAProxy", "sing-box"
NAMES = (DIRECT, PAIR, HAPROXY, SING_BOX)
WEB = 80
DOOR = f"{RELAY}:4433"
PORTS = {HAPROXY: 7001, SING_BOX: 7002}  # at both sides
MOST = 9000  # connections
LISTENS = "0A"  # a state of /proc/net/tcp
LISTENS_WITHIN_S = 10.0
USER = "5c1e0a52-53ab-4d4c-9d7a-3a37c9a6e1f0"  # sing-box wants one beside the certificates


@dataclass(frozen=True, slots=True)
class Way:
    """Where the terminal connects to, and the processes that carry it from there."""

    name: str
    address: str
    port: int = WEB
    gateway: int | None = None
    relay: int | None = None


@contextmanager
def raise_ways(net: Stage, names: tuple[str, ...] = NAMES) -> Iterator[list[Way]]:
    """Those of these that are installed, in this order."""
    with ExitStack() as stack:
        yield [stack.enter_context(MAKERS[name](net)) for name in names if _installed(name)]


def _installed(name: str) -> bool:
    return name in (DIRECT, PAIR) or shutil.which(name.lower()) is not None


@contextmanager
def _direct(_net: Stage) -> Iterator[Way]:
    yield Way(DIRECT, LEFT_ALONE)


@contextmanager
def _pair(net: Stage) -> Iterator[Way]:
    taking = ("--inside", "left", "--from", TERMINALS, "--except", f"{LEFT_ALONE}/32")
    with paired(net.machine("gateway"), net.machine("relay"), DOOR, str(WEB), taking) as pair:
        yield Way(PAIR, TAKEN, gateway=pair.gateway, relay=pair.relay)


def _other(name: str, words: tuple[str, ...], ends: Callable[[Identity, Identity], tuple[str, str]]) -> Maker:
    """`words` run it on a file; `ends` are what is in the gateway's, and in the relay's."""

    @contextmanager
    def made(net: Stage) -> Iterator[Way]:
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
            yield Way(name, GATEWAY, PORTS[name], *pids)

    return made


def _await_listening(process: subprocess.Popen[str], machine: Machine, name: str, log: Path) -> None:
    """Nobody tells when another's program listens."""
    deadline = time.monotonic() + LISTENS_WITHIN_S
    while not any(
        row.split()[1].endswith(f":{PORTS[name]:04X}") and row.split()[3] == LISTENS
        for row in Path(f"/proc/{machine.pid}/net/tcp").read_text().splitlines()
    ):
        if process.poll() is not None or time.monotonic() > deadline:
            raise ExperimentFailed(
                f"{machine.name}: {name} does not listen at port {PORTS[name]} within "
                f"{LISTENS_WITHIN_S:.0f} s; it said: {log.read_text().strip()[-500:] or 'nothing'}"
            )
        time.sleep(LOOK_EVERY_S)


def _haproxy(ours: Identity, theirs: Identity) -> tuple[str, str]:
    common = f"global\n maxconn {MOST}\ndefaults\n mode tcp\n maxconn {MOST}\n timeout connect 10s\n"
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
    door = {"listen": RELAY, "listen_port": port, **paths, "users": [{"uuid": USER}]}
    relay = {
        "inbounds": [{"type": "vless", **door, "tls": {**verified, **shows, **wants}}],
        "outbounds": [{"type": "direct"}],
    }
    quiet = {"log": {"level": "error"}}
    return json.dumps(quiet | gateway), json.dumps(quiet | relay)


Maker = Callable[[Stage], AbstractContextManager[Way]]
MAKERS: dict[str, Maker] = {
    DIRECT: _direct,
    PAIR: _pair,
    HAPROXY: _other(HAPROXY, ("mptcpize", "run", "haproxy", "-db", "-f"), _haproxy),
    SING_BOX: _other(SING_BOX, ("sing-box", "run", "-c"), _sing_box),
}

# The terminal's and the server's programs, with everything between them standing.

TRAFFIC = Path(__file__).with_name("traffic.py")
PATIENCE_S = 600.0
REACHED_WITHIN_S = 10.0
# Those that have ended keep their ports for a minute: here there are as many as there can be, and used again.
PORT_SETTINGS = ("net.ipv4.ip_local_port_range=1024 65535", "net.ipv4.tcp_tw_reuse=1")


@contextmanager
def standing(
    delay_ms: float = 0.0, names: tuple[str, ...] = NAMES, receive: str = RECEIVE_BUFFER_SYSCTL
) -> Iterator[tuple[Stage, list[Way]]]:
    """The road with a server that answers, and those of these ways that are installed; it answers by each. `receive`
    are all machines' buffers."""
    with raised(RoadTopo(delay_ms=delay_ms)) as net:
        machines: list[Machine] = net.hosts
        for machine in machines:
            machine.run("sysctl", "--quiet", "--write", receive, *PORT_SETTINGS)
        words = [sys.executable, str(TRAFFIC), "serve", str(WEB)]
        server = net.machine("server").popen(words, stdin=subprocess.PIPE, stderr=None, text=True)
        try:
            if server.stdout is None or server.stdout.readline() != "ready\n":
                raise ExperimentFailed("the server did not begin; its error is above")
            with raise_ways(net, names) as ways:
                for way in ways:
                    _await_answer(net, way)
                yield net, ways
        finally:
            server.kill()
            server.communicate()


def _await_answer(net: Stage, way: Way) -> None:
    deadline = time.monotonic() + REACHED_WITHIN_S
    while not ask(net, "first", way, 1):
        if time.monotonic() > deadline:
            raise ExperimentFailed(f"within {REACHED_WITHIN_S:.0f} s the server answers nobody who comes by {way.name}")


def ask(net: Stage, what: str, way: Way, *words: object) -> list[dict[str, float]]:
    """The terminal's program, and what it found."""
    done = net.machine("terminal").run(*words_of(what, way, *words), timeout_s=PATIENCE_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def words_of(what: str, way: Way, *words: object) -> list[str]:
    return [sys.executable, str(TRAFFIC), what, way.address, str(way.port), *map(str, words)]
