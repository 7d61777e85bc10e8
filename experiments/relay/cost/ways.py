"""Who carries a terminal's connection to the server: nobody, the pair, or another proxy's two ends.

All stand at the same time and idle but for the one that is measured, so that they can take turns. The others get what
makes them comparable: MPTCP between gateway and relay, TLS 1.3 with certificates of both sides. They are never fetched:
who is not installed is left out, and told.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.relay.certificates import Identity, issue
from experiments.relay.cost.road import GATEWAY, LEFT_ALONE, RELAY, TAKEN, TERMINALS
from experiments.relay.pair import paired, running
from lab.processes.controller import LOOK_EVERY_S
from lab.stage import isolate
from lab.stage.failure import ExperimentFailed
from lab.stage.nodes import Machine
from lab.stage.stage import Stage

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
