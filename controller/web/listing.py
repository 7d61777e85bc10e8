"""A program as scripts read it: the same words as in `program`, in JSON's shapes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from controller.program import (
    Action,
    Bucket,
    DecTtl,
    Group,
    Meter,
    Move,
    Output,
    OutputInPort,
    Program,
    Resubmit,
    SetField,
    ToController,
    ToGroup,
    Value,
)

NAMES: dict[type[Action], str] = {
    SetField: "set_field",
    Move: "move",
    DecTtl: "dec_ttl",
    Output: "output",
    OutputInPort: "output_in_port",
    ToController: "to_controller",
    ToGroup: "to_group",
    Resubmit: "resubmit",
}


@dataclass(frozen=True, slots=True)
class ListedFlow:
    table: int
    priority: int
    match: dict[str, Value]
    actions: list[dict[str, Value]]  # {"do": "set_field", "field": "eth_dst", "value": "08:00:27:33:6d:a7"}
    goto: int | None
    meter: int | None


@dataclass(frozen=True, slots=True)
class ListedBucket:
    actions: list[dict[str, Value]]
    watch_port: int | None


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: int
    label: str
    kind: str
    buckets: list[ListedBucket]


@dataclass(frozen=True, slots=True)
class ListedProgram:
    gateway: str
    flows: list[ListedFlow]
    groups: list[ListedGroup]
    meters: list[Meter]


def listed(gateway: str, program: Program) -> ListedProgram:
    """In the order in which a switch looks: by table, then the higher priority first."""
    flows = sorted(program.flows.values(), key=lambda flow: (flow.table, -flow.priority, str(flow.match)))
    return ListedProgram(
        gateway,
        [
            ListedFlow(flow.table, flow.priority, dict(flow.match), _actions(flow.actions), flow.goto, flow.meter)
            for flow in flows
        ],
        [_group(program.groups[group_id]) for group_id in sorted(program.groups)],
        [program.meters[meter_id] for meter_id in sorted(program.meters)],
    )


def _group(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.label, group.kind, [_bucket(bucket) for bucket in group.buckets])


def _bucket(bucket: Bucket) -> ListedBucket:
    return ListedBucket(_actions(bucket.actions), bucket.watch_port)


def _actions(actions: tuple[Action, ...]) -> list[dict[str, Value]]:
    return [{"do": NAMES[type(action)], **asdict(action)} for action in actions]
