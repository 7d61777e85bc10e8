"""A change in the words that a person would look for in dump-flows and dump-groups."""

from __future__ import annotations

from collections.abc import Mapping

from controller.events import (
    AddFlow,
    AddGroup,
    AddMeter,
    Change,
    DeleteFlow,
    DeleteGroup,
    DeleteMeter,
    ModifyFlow,
    ModifyGroup,
    ModifyMeter,
)
from controller.known import Port
from controller.render import Renderer


def describe(change: Change, ports: Mapping[str, Port]) -> str:
    render = Renderer(ports)
    match change:
        case AddFlow(flow):
            return f"to add the flow {render.flow(flow)}"
        case ModifyFlow(flow):
            return f"to modify the flow {render.flow(flow)}"
        case DeleteFlow(flow):
            return f"to delete the flow {render.flow(flow)}"
        case AddGroup(group):
            return f"to add the group of {group.label}: {render.group(group)}"
        case ModifyGroup(group):
            return f"to modify the group of {group.label}: {render.group(group)}"
        case DeleteGroup(group_id):
            return f"to delete the group {group_id}"
        case AddMeter(meter):
            return f"to add the meter {render.meter(meter)}"
        case ModifyMeter(meter):
            return f"to modify the meter {render.meter(meter)}"
        case DeleteMeter(meter_id):
            return f"to delete the meter {meter_id}"
