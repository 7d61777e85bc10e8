"""A router that translates addresses, as a provider or a modem does: out of our hands, and not always the same."""

from __future__ import annotations

from typing import Any

from topologies.nodes import Machine

TRANSLATION = "translation"
SILENCE = "silence"


class Nat(Machine):
    """What leaves by its device `outside` has its address there, and a port by chance.

    addresses, routes   as of a Machine
    outside             a device that has one address, and the default route
    translates          whether it does from the beginning on
    """

    def config(self, *given: Any, outside: str = "out", translates: bool = True, **machine: Any) -> None:
        super().config(*given, **{**machine, "forwards": True})
        self._outside = outside
        self._address = machine["addresses"][outside][0]
        self._routes = machine.get("routes", ())
        if translates:
            self.translate()

    def translate(self) -> None:
        rule = f'type nat hook postrouting priority srcnat; oifname "{self._outside}" masquerade fully-random'
        self.run("nft", "-f", "-", given=f"table ip {TRANSLATION} {{ chain leaving {{ {rule}; }}; }}\n")

    def pass_on(self) -> None:
        """Be a plain router again. What was translated stays so until it is silent."""
        self.run("nft", "delete", "table", "ip", TRANSLATION)

    def redial(self, address: str | None = None) -> None:
        """Forget all mappings, and go on with another outer address (like 198.51.100.77/24), or with the same one.

        With its address the kernel forgets what was translated to it.
        """
        new = address or self._address
        lines = [f"address del {self._address} dev {self._outside}", f"address add {new} dev {self._outside}"]
        lines += [f"route replace {route.to} via {route.via}" for route in self._routes]
        self.run("ip", "-batch", "-", given="\n".join(lines) + "\n")
        self._address = new

    def narrow(self, device: str, mtu: int) -> None:
        """What leaves by it is no longer than this, and who sends longer packets is not told."""
        types = ("icmp type destination-unreachable icmp code frag-needed", "icmpv6 type packet-too-big")
        drops = "\n".join(f"{each} drop" for each in types)
        chain = f"chain out {{ type filter hook output priority 0;\n{drops}\n}}"
        self.run("nft", "-f", "-", given=f"table inet {SILENCE} {{ {chain}\n}}\n")
        self.run("ip", "link", "set", device, "mtu", str(mtu))

    def widen(self, device: str, mtu: int) -> None:
        self.run("ip", "link", "set", device, "mtu", str(mtu))
        self.run("nft", "delete", "table", "inet", SILENCE)
