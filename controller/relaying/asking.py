"""What people ask of relays: how a destination is reached, and how a relay does. Where it is not known agents walk."""

from __future__ import annotations

from ipaddress import ip_network

from controller.known import Wanted
from controller.relaying import telling
from controller.relaying.inquiry import Inquiry
from controller.relaying.relaying import Relaying
from controller.relaying.views import DestinationView, TriedView
from controller.relaying.wishes import known
from controller.relays import PREFIXES
from controller.reports import Sought
from controller.traffic import Address
from controller.wishes import Impossible

HTTPS = 443


class Asked:
    """A destination, from one site or from all."""

    def __init__(self, relaying: Relaying, address: Address, site: str | None, anew: bool, now: float) -> None:
        self._relaying, self._site = relaying, site
        if not address.is_global or address.is_multicast:
            raise Impossible(f"{address} is no address of the Internet, and relays reach no other")
        prefix = ip_network((address, PREFIXES[address.version]), strict=False)
        self._sought = Sought(str(prefix), str(address), HTTPS)
        self.inquiry = relaying.walk(relaying.scenes(site), self._sought, anew, now)

    @property
    def inquiries(self) -> list[Inquiry]:
        return [self.inquiry]

    def told(self, now: float) -> tuple[DestinationView, ...]:
        scenes = self._relaying.scenes(self._site)
        found = ((scene, self._relaying.seeking.place(scene.site.name, self._sought.prefix)) for scene in scenes)
        return tuple(telling.destination(self._relaying, scene, place, now) for scene, place in found if place)


class Tried:
    """A relay, and by it perhaps a destination."""

    def __init__(self, relaying: Relaying, wanted: Wanted, name: str, address: Address | None, now: float) -> None:
        self._relaying, self._name, self._wished = relaying, name, known(wanted, name)
        self._asked = Asked(relaying, address, None, True, now) if address is not None else None
        self._near = relaying.walk_to_relay(relaying.scenes(None), self._wished)

    @property
    def inquiries(self) -> list[Inquiry]:
        return [self._near, *(self._asked.inquiries if self._asked else ())]

    def told(self, now: float) -> TriedView:
        destinations = self._asked.told(now) if self._asked else ()
        return TriedView(telling.relay(self._relaying, self._name, self._wished, now), destinations)
