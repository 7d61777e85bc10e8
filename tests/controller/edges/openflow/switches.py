# SPDX-License-Identifier: Apache-2.0
"""A real Open vSwitch for tests of the wire: its own processes and sockets, dummy ports, and no device."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
PATIENCE_S = 60.0


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience_s} s without success: {what}"
        time.sleep(0.01)


class Ovs:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._database = f"unix:{directory}/db.sock"
        self._run("ovsdb-tool", "create", f"{directory}/conf.db", SCHEMA)
        self._daemons = [
            self._daemon("ovsdb-server", f"--remote=p{self._database}", f"{directory}/conf.db"),
            self._daemon("ovs-vswitchd", "--enable-dummy", self._database),
        ]
        until(lambda: (directory / "ovs-vswitchd.ctl").exists(), "ovs-vswitchd starts")

    def bridge(self, name: str, dpid: int, controller: str, ports: int = 2, protocols: str = "OpenFlow13") -> None:
        """Add a bridge with the ports <name>1, <name>2, ... numbered from 1."""
        bridge = ["set", "bridge", name, "datapath_type=dummy", "fail_mode=secure", f"protocols={protocols}"]
        arguments = ["--may-exist", "add-br", name, "--", *bridge, f"other_config:datapath-id={dpid:016x}"]
        for number in range(1, ports + 1):
            port = f"{name}{number}"
            arguments += ["--", "add-port", name, port]
            arguments += ["--", "set", "interface", port, "type=dummy", f"ofport_request={number}"]
        self.vsctl(*arguments, "--", "set-controller", name, controller)
        self.vsctl("set", "controller", name, "inactivity_probe=0", "max_backoff=1000")

    def remove(self, *names: str) -> None:
        for name in names:
            self.vsctl("--if-exists", "del-br", name)

    def vsctl(self, *arguments: str) -> str:
        return self._run("ovs-vsctl", f"--db={self._database}", *arguments)

    def ofctl(self, bridge: str, command: str, *arguments: str) -> str:
        return self._run("ovs-ofctl", "-O", "OpenFlow13", command, f"{self.directory}/{bridge}.mgmt", *arguments)

    def appctl(self, *arguments: str) -> str:
        return self._run("ovs-appctl", "-t", f"{self.directory}/ovs-vswitchd.ctl", *arguments)

    def receive(self, port: str, frame: bytes) -> None:
        self.appctl("netdev-dummy/receive", port, frame.hex())

    def pause(self, paused: bool) -> None:
        """Make the switch stay connected and silent."""
        self._daemons[1].send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait()

    def _daemon(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        control = f"--unixctl={self.directory}/{name}.ctl"
        log = f"--log-file={self.directory}/{name}.log"
        daemon = subprocess.Popen(
            [name, *options, control, log, "-vconsole:off", "--no-chdir"], env=self._environment(), cwd=self.directory
        )
        until(lambda: (self.directory / f"{name}.ctl").exists(), f"{name} starts")
        return daemon

    def _environment(self) -> dict[str, str]:
        path = "/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "OVS_RUNDIR": str(self.directory), "OVS_DBDIR": str(self.directory)}

    def _run(self, *argv: str) -> str:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, env=self._environment())
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return done.stdout
