# SPDX-License-Identifier: Apache-2.0
"""`./bicast doctor` finds defects, and the commands that it suggests fix them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.__main__ import main
from controller.edges.config.load import load
from gateway import doctor, host, nft
from gateway.checks import caps, certificates, clock, kernel, routes, sysctls, versions
from gateway.doctor import Check
from gateway.finding import Finding, State
from gateway.scene import CheckContext
from lab.stage.ovs import PrivateOvs
from tests.gateway.conftest import shell

Files = Callable[..., str]
Captured = pytest.CaptureFixture[str]

SYSCTL_DEFECTS = {
    "rp_filter all": "net.ipv4.conf.all.rp_filter=1",
    "rp_filter default": "net.ipv4.conf.default.rp_filter=1",
    "rp_filter w0": "net.ipv4.conf.w0.rp_filter=1",
    "IPv4 forwarding w0": "net.ipv4.conf.w0.forwarding=1",
    "IPv6 forwarding l0": "net.ipv6.conf.all.forwarding=1",
    "net.mptcp.enabled": "net.mptcp.enabled=0",
    "net.mptcp.blackhole_timeout": "net.mptcp.blackhole_timeout=3600",
    "net.mptcp.stale_loss_cnt": "net.mptcp.stale_loss_cnt=4",
}
# finding: the command that causes it
DEFECTS = {
    **{name: f"sysctl -w {setting}" for name, setting in SYSCTL_DEFECTS.items()},
    "br-home fail_mode": "ovs-vsctl set-fail-mode br-home standalone",
    "br-home other_config:datapath-id": "ovs-vsctl set Bridge br-home other_config:datapath-id=00000000000000ff",
    "br-home protocols": "ovs-vsctl set Bridge br-home protocols=OpenFlow10",
    "br-home controller": "ovs-vsctl set-controller br-home tcp:127.0.0.1:1",
    "br-home controller connection": "ovs-vsctl set Controller br-home connection_mode=in-band",
    "bridge br-home": "ovs-vsctl del-br br-home",
    "w0 port": "ovs-vsctl del-port br-home w0",
    "w0 offloads": "ethtool -K w0 tx on tso on gso on",
    "w0 link": "ip link set w0 down",
    "w0 addresses": "ip address add 198.51.100.7/24 dev w0",
    "home MTU": "ip link set w0 mtu 1400",
    "w0 egress hook": "nft add table netdev t; nft add chain netdev t c "
    "'{ type filter hook egress device w0 priority 0; }'; nft add rule netdev t c numgen random mod 10 '<' 1 drop",
    "path to the controller": "nft add table inet f; nft add chain inet f i "
    "'{ type filter hook input priority 0; policy drop; }'",
    "switch TLS": "ovs-vsctl del-ssl",
}


def findings(scene: CheckContext, check: Check | None = None) -> dict[str, Finding]:
    return {finding.name: finding for finding in (check(scene) if check else doctor.examine(scene))}


def scene_of(file: str) -> CheckContext:
    config = load(file)
    return CheckContext(file, config, config.sites)


@pytest.fixture
def prepared(ovs: PrivateOvs, ports: None, gateway_file: Files) -> str:
    """Return the file of a gateway that `bridge` has prepared, on a sound host."""
    file = gateway_file(tls=True)
    assert main(["bridge", file]) == 0
    shell("sysctl -w net.mptcp.blackhole_timeout=0 net.mptcp.stale_loss_cnt=1 net.ipv4.ip_forward=0")
    return file


def test_a_prepared_gateway_has_nothing_bad(prepared: str, capsys: Captured) -> None:
    """The controller does not run, and the clock may be unsynchronized: both are warnings."""
    not_ok = {name for name, finding in findings(scene_of(prepared)).items() if finding.state is not State.OK}
    assert not_ok <= {"br-home connection", "clock"}
    assert main(["doctor", prepared]) == 0
    assert " 0 bad" in capsys.readouterr().out


@pytest.mark.parametrize("name", DEFECTS)
def test_each_suggested_fix_works(prepared: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (versions.__name__, kernel.__name__)  # and irrelevant here
    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check.__module__ not in slow])
    shell(DEFECTS[name])
    found = findings(scene_of(prepared))[name]
    assert found.state is not State.OK
    assert found.mend is not None
    shell(found.mend)
    after = findings(scene_of(prepared))
    assert name not in after or after[name].state is State.OK


def test_a_defect_is_exit_code_1_and_listed_in_json(prepared: str, capsys: Captured) -> None:
    shell("ovs-vsctl set-fail-mode br-home standalone")
    capsys.readouterr()
    assert main(["doctor", prepared, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (bad,) = (finding for finding in told["findings"] if finding["state"] == "bad")
    assert (bad["name"], bad["found"], bad["expected"]) == ("br-home fail_mode", "standalone", "secure")
    assert told["bad"] == 1


def test_suggested_routes_fix_a_host_with_two_uplinks() -> None:
    for dev, net in (("wi", 100), ("lt", 200)):
        shell(f"ip link add {dev} type veth peer name {dev}-far && ip link set {dev}-far up && ip link set {dev} up")
        shell(f"ip address add 192.168.{net}.2/24 dev {dev} && ip -6 address add 2001:db8:{net}::2/64 dev {dev} nodad")
        shell(f"ip route add default via 192.168.{net}.1 metric {net}")
        shell(f"ip -6 route add default via 2001:db8:{net}::1 metric {net}")
    wrong = {"return route 192.168.200.2", "return route 2001:db8:200::2"}
    found = findings(CheckContext(), routes.return_routes)
    assert {name for name, finding in found.items() if finding.state is State.BAD} == wrong
    for name in wrong:
        line = found[name].mend
        assert line is not None
        shell(line)
    mended = findings(CheckContext(), routes.return_routes)
    assert all(finding.state is State.OK for finding in mended.values())
    assert wrong <= mended.keys()


def test_strict_rp_filter_is_bad_with_two_networks_unless_all_is_loose() -> None:
    """The kernel uses the higher of `all` and the interface's own value (ip-sysctl)."""
    shell("ip link add w type veth peer name l && sysctl -w net.ipv4.conf.all.rp_filter=1")
    shell("ip address add 192.168.100.2/24 dev w")
    assert findings(CheckContext(), sysctls.rp_filter)["rp_filter l"].state is State.WARNING
    shell("ip address add 192.168.200.2/24 dev l")
    assert findings(CheckContext(), sysctls.rp_filter)["rp_filter l"].state is State.BAD
    shell("sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.l.rp_filter=1")
    assert findings(CheckContext(), sysctls.rp_filter)["rp_filter l"].state is State.OK


def test_the_suggested_fix_frees_an_occupied_port(gateway_file: Files) -> None:
    program = "import socket; s = socket.create_server(('127.0.0.1', 6653)); print(flush=True); s.accept()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        stranger.stdout.readline()
        found = findings(scene_of(gateway_file()))["OpenFlow port 127.0.0.1:6653"]
        assert found.state is State.BAD
        assert "socket.create_server" in found.found
        assert found.mend == f"kill {stranger.pid}"
        shell(found.mend)
    assert findings(scene_of(gateway_file()))["OpenFlow port 127.0.0.1:6653"].state is State.OK


def test_plain_tcp_is_a_warning_and_a_unix_socket_is_not(gateway_file: Files, tmp_path: Path) -> None:
    found = findings(scene_of(gateway_file()))["OpenFlow listener"]
    assert found.state is State.WARNING
    assert "plain TCP at 127.0.0.1:6653 does not authenticate the controller" in found.found
    found_at_socket = findings(scene_of(gateway_file(local=tmp_path / "openflow.sock")))
    assert "OpenFlow listener" not in found_at_socket
    assert found_at_socket[f"OpenFlow socket {tmp_path}/openflow.sock"].state is State.OK


NAMES = {"ca": "CA", "switch-a1": "switch"}


@pytest.mark.parametrize("which", ["ca", "controller", "switch-a1"])
def test_expiring_certificates_are_found_and_renewed(prepared: str, which: str) -> None:
    pem = Path(prepared).with_name("tls") / f"{which}.pem"
    ends_s = time.time() + 3650 * 86400
    assert certificates.lifetime("x", pem, ends_s - 40 * 86400, None).state is State.OK
    assert certificates.lifetime("x", pem, ends_s - 20 * 86400, None).state is State.WARNING
    assert certificates.lifetime("x", pem, ends_s + 86400, None).state is State.BAD
    assert certificates.lifetime("x", pem, time.time() - 86400, None).state is State.BAD
    made = pem.read_bytes()
    key = pem.with_name("ca-signing.key" if which == "ca" else f"{which}.key")
    shell(f"openssl x509 -in {pem} -signkey {key} -days -1 -out {pem}")  # ended a day before it began
    assert_mends(prepared, f"{NAMES.get(which, which)} certificate")
    assert pem.read_bytes() != made


def assert_mends(prepared: str, name: str) -> None:
    found = findings(scene_of(prepared))[name]
    assert found.state is State.BAD and found.mend is not None
    shell(found.mend)
    assert not {each.name for each in findings(scene_of(prepared)).values() if each.state is State.BAD}


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        ("chmod 0644 {tls}/switch-a1.key", "mode of {tls}/switch-a1.key"),
        ("openssl ecparam -genkey -name prime256v1 -noout -out {tls}/controller.key", "controller key"),
        (
            "cp {tls}/switch-a1.pem {tls}/controller.pem; cp {tls}/switch-a1.key {tls}/controller.key",
            "controller signature",
        ),
        ("rm {tls}/switch-a1.pem {tls}/switch-a1.key", "switch certificate"),
    ],
)
def test_mismatched_tls_files_are_found_and_fixed(prepared: str, broken: str, name: str) -> None:
    tls = Path(prepared).with_name("tls")
    shell(broken.format(tls=tls))
    assert_mends(prepared, name.format(tls=tls))


def test_a_missing_open_vswitch_is_reported_once(
    gateway_file: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    told = [finding for finding in doctor.examine(scene_of(gateway_file())) if "no Open vSwitch" in finding.found]
    assert [(finding.name, finding.state) for finding in told] == [("Open vSwitch", State.BAD)]
    assert told[0].mend == host.START_OVS


def test_a_port_without_its_interface_is_bad(ovs: PrivateOvs, gateway_file: Files) -> None:
    file = gateway_file()
    assert main(["bridge", file]) == 1
    found = findings(scene_of(file))
    assert found["l0 interface"].state is State.WARNING
    assert found["l0 port"].state is State.BAD and found["l0 port"].mend is None
    assert "No such device" in found["l0 port"].found


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = findings(CheckContext(), versions.tools)["tool ethtool"]
    assert (found.state, found.mend) == (State.BAD, "apt-get install -y ethtool")
    blind = findings(CheckContext())["rp filter"]
    assert blind.state is State.BAD
    assert "is not installed: apt-get install -y iproute2" in blind.found


@pytest.mark.parametrize("tool", host.PACKAGE_OF)
def test_each_tool_belongs_to_its_suggested_package(tool: str) -> None:
    where = shutil.which(tool)
    assert where is not None
    # merged /usr: dpkg knows /bin/ip, the shell finds /usr/bin/ip
    owners = shell(f"dpkg -S '*/{tool}'").splitlines()
    assert host.PACKAGE_OF[tool] in {line.partition(":")[0] for line in owners if line.endswith(f"bin/{tool}")}


@pytest.mark.parametrize(
    ("name", "text", "state"),
    [
        ("Open vSwitch", "ovs-vsctl (Open vSwitch) 2.17.9\nDB Schema 8.3.0", State.BAD),
        ("Open vSwitch", "ovs-vsctl (Open vSwitch) 3.10.0\nDB Schema 8.3.0", State.OK),
        ("iproute2", "ip utility, iproute2-5.15.0, libbpf 0.5.0", State.BAD),
        ("Python", "3.13.5", State.OK),
        ("kernel", "unheard of", State.BAD),
    ],
)
def test_old_programs_are_bad(name: str, text: str, state: State) -> None:
    assert versions.compared(name, text).state is state


def test_nft_chains_are_parsed() -> None:
    shell("ip link add w0 type veth peer name c0")
    shell(
        """nft -f - <<END
        table netdev t {
            chain harmless {
                type filter hook ingress device w0 priority 0;
                ip saddr 192.0.2.1 counter comment "no drop"
            }
            chain both { type filter hook ingress devices = { w0, c0 } priority 5; policy drop; }
            chain apart { drop; }
        }
        table inet f {
            chain i {
                type filter hook input priority 0;
                tcp dport { 1, 2, 3 } drop
            }
        }
END"""
    )
    assert nft.chains() == (
        nft.Chain("netdev t harmless", "ingress", ("w0",), False),
        nft.Chain("netdev t both", "ingress", ("c0", "w0"), True),
        nft.Chain("inet f i", "input", (), True),
    )


def test_kernel_checks_leave_the_host_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    before = shell("ip -json link show; tc qdisc show; nft list ruleset")
    told = findings(CheckContext(), kernel.lab)
    assert {finding.found for finding in told.values()} <= {"yes", "no"}
    assert told["kernel TBF"].found == "yes"
    monkeypatch.setattr(kernel, "EGRESS_HOOK", "table netdev t { chain c { type filter hook nowhere }; }")
    assert findings(CheckContext(), kernel.lab)["kernel nft egress hook"].state is State.WARNING
    assert shell("ip -json link show; tc qdisc show; nft list ruleset") == before


def test_a_missing_kernel_datapath_is_bad_only_if_configured(gateway_file: Files) -> None:
    there = subprocess.run(["genl", "ctrl", "get", "name", "ovs_datapath"], capture_output=True).returncode == 0
    file = gateway_file()
    assert findings(scene_of(file), kernel.datapath)["kernel openvswitch"].state is State.OK
    Path(file).write_text(Path(file).read_text().replace("datapath: netdev", "datapath: system"))
    wanted = findings(scene_of(file), kernel.datapath)["kernel openvswitch"]
    assert wanted.state is (State.OK if there else State.BAD)
    unknown = findings(CheckContext(), kernel.datapath)["kernel openvswitch"]
    assert unknown.state is (State.OK if there else State.WARNING)
    assert there or "datapath: netdev" in unknown.found


def test_a_kernel_without_caps_is_a_warning_if_a_rule_is_configured(
    gateway_file: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = gateway_file()
    without = Path(file).read_text()
    for rule in ("", "    access_points: {air: {rule: off}}\n"):
        Path(file).write_text(without + rule)
        assert not findings(scene_of(file), caps.hands)
    Path(file).write_text(without + "    access_points: {air: {rule: paper}}\n")
    found = findings(scene_of(file), caps.hands)["kernel caps"]
    assert (found.state, found.found) == (State.OK, "congestion-control, clamp, window")
    agent = tmp_path / "tree" / "build" / "bicast-agent"
    monkeypatch.setattr(caps, "AGENT", agent)
    unknown = findings(scene_of(file), caps.hands)["kernel caps"]
    assert (unknown.state, unknown.mend) == (State.WARNING, f"make -C {tmp_path}/tree setup")
    agent.parent.mkdir(parents=True)
    agent.write_text("#!/bin/sh\necho 'congestion-control: no: Linux 6.4 is wanted\nclamp: yes\nwindow: no: no BTF'\n")
    agent.chmod(0o755)
    unable = findings(scene_of(file), caps.hands)["kernel caps"]
    assert unable.state is State.WARNING
    assert unable.found == "clamp; congestion-control: no: Linux 6.4 is wanted; window: no: no BTF"


@pytest.mark.parametrize(("answer", "state"), [(0, State.OK), (clock.TIME_ERROR, State.WARNING)])
def test_an_unsynchronized_clock_is_a_warning(monkeypatch: pytest.MonkeyPatch, answer: int, state: State) -> None:
    monkeypatch.setattr(clock, "adjtimex", lambda: answer)
    (found,) = clock.clock(CheckContext())
    assert found.state is state
