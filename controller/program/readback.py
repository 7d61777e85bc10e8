# SPDX-License-Identifier: Apache-2.0
"""The state in installed groups: learned MACs and counted terminals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from controller.model.config import Site
from controller.model.observed import Neighbour, Port
from controller.program.groups import answered, served
from controller.program.metering import through
from controller.program.program import Bucket, Group, Output, Resubmit, SetField


@dataclass(frozen=True, slots=True)
class LeavingGroup:
    """The terminal and class of a group's packets."""

    terminal: str
    traffic: str
    sent: bool  # by the terminal, otherwise to it


@lru_cache(maxsize=256)
def leaving_ways(site: Site) -> Mapping[int, LeavingGroup]:
    own = {
        name.group_id: LeavingGroup(each.terminal.name, traffic.name, sent=True)
        for each in served(site)
        for traffic, name in each.leaving
    }
    back = {
        name.group_id: LeavingGroup(each.returned.terminal.name, traffic.name, sent=False)
        for each in answered(site)
        for traffic, name in each.leaving
    }
    return {**own, **back}


def remembered(site: Site, ports: Mapping[str, Port], groups: Mapping[int, Group]) -> dict[Neighbour, str]:
    """Return the learned MACs in installed groups: the inverse of `compile`."""
    macs: dict[Neighbour, str] = {}
    numbers = {port.number: name for name, port in ports.items()}
    uplinks = {uplink.port: uplink for uplink in site.uplinks}
    by_table = {way.table: site.uplink(name) for name, way in through(site).items()}
    for each in served(site):
        if host := each.place.host:
            for bucket in _buckets(groups, each.delivery.group_id):
                macs[each.place.port, host] = _written(bucket, "eth_dst")
        for _, leaving in each.leaving:
            for bucket in _buckets(groups, leaving.group_id):
                uplink = by_table.get(_led_to(bucket)) or uplinks.get(numbers.get(_sent_to(bucket), ""))
                hop = uplink.next_hop(each.family) if uplink else None
                if uplink and hop:
                    macs[uplink.port, hop.address] = _written(bucket, "eth_dst")
    return macs


def counting_ids(site: Site) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    ids: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {terminal.name: ((), ()) for terminal in site.terminals}
    for each in served(site):
        sends, receives = ids[each.terminal.name]
        sends += tuple(leaving.group_id for _, leaving in each.leaving)
        if not each.place.by_relay:  # what the host receives for it is delivered once more
            receives += tuple(name.group_id for name in (each.delivery, each.back) if name)
        ids[each.terminal.name] = sends, receives
    return ids


def _buckets(groups: Mapping[int, Group], group_id: int) -> tuple[Bucket, ...]:
    """Return buckets in this controller's form: a person may have written others into its range."""
    found = groups[group_id].buckets if group_id in groups else ()
    led = (bucket for bucket in found if _sent_to(bucket) or _led_to(bucket))
    return tuple(bucket for bucket in led if _written(bucket, "eth_dst"))


def _led_to(bucket: Bucket) -> int:
    """Return the table of a metered copy, or 0."""
    return next((action.table for action in bucket.actions if isinstance(action, Resubmit)), 0)


def _sent_to(bucket: Bucket) -> int:
    return next((action.port for action in bucket.actions if isinstance(action, Output)), 0)


def _written(bucket: Bucket, field: str) -> str:
    values = (action.value for action in bucket.actions if isinstance(action, SetField) and action.field == field)
    return str(next(values, ""))
