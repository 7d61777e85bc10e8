# SPDX-License-Identifier: Apache-2.0
"""The tables that count and meter copies, one for each uplink with limits.

The one flow counts them, or its meter, which counts what passes. A meter that drops a packet ends all later buckets
too, so metered copies leave last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.model.config import Site
from controller.model.in_force import CopyRateLimit
from controller.model.observed import CopyCounter, Port
from controller.model.uplink import UNLIMITED
from controller.program.program import METER_IDS, Flow, Installed, Meter, Output, Resubmit, fields
from controller.program.tables import FIRST_COPIES

NEXT_TO_NOTHING = CopyRateLimit(1, 1)  # until the remaining budget is known


def through(site: Site) -> dict[str, Resubmit]:
    return {
        uplink.name: Resubmit(FIRST_COPIES + number)
        for number, uplink in enumerate(site.uplinks)
        if uplink.limits != UNLIMITED
    }


def flows(site: Site, wires: Mapping[str, Port]) -> Iterator[Flow]:
    for number, uplink in enumerate(site.uplinks):
        if uplink.limits != UNLIMITED and uplink.port in wires:
            meter = METER_IDS[number] if uplink.limits.budget else None
            yield Flow(FIRST_COPIES + number, 1, fields(), (Output(wires[uplink.port].number),), meter=meter)


def meters(site: Site, rates: Mapping[str, CopyRateLimit]) -> Iterator[Meter]:
    for number, uplink in enumerate(site.uplinks):
        if uplink.limits.budget:
            rate = rates.get(uplink.name, NEXT_TO_NOTHING)
            yield Meter(METER_IDS[number], rate.kbps, rate.burst_kbits)


def counted(site: Site, installed: Installed) -> dict[str, CopyCounter]:
    """Return the copied bytes by uplink, including tunnel headers.

    With a budget the meter counts: a flow's counter lags and includes drops.
    """
    found = {}
    for number, uplink in enumerate(site.uplinks):
        offered = installed.flow_counters.get((FIRST_COPIES + number, 1, fields()))
        meter = installed.program.meters.get(METER_IDS[number])
        if uplink.limits.budget:
            if meter is not None and meter.meter_id in installed.meter_passed:
                outer_bytes = installed.meter_packets.get(meter.meter_id, 0) * uplink.outer_bytes
                found[uplink.name] = CopyCounter(installed.meter_passed[meter.meter_id] + outer_bytes, meter.rate_kbps)
        elif uplink.limits != UNLIMITED and offered is not None:
            found[uplink.name] = CopyCounter(offered.bytes + offered.packets * uplink.outer_bytes)
    return found
