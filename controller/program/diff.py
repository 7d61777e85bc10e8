# SPDX-License-Identifier: Apache-2.0
"""The fewest changes from one program to another, ordered to leave no dangling reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from controller.program.program import Flow, Group, Meter, Program, ToGroup


@dataclass(frozen=True, slots=True)
class AddMeter:
    meter: Meter


@dataclass(frozen=True, slots=True)
class ModifyMeter:
    meter: Meter


@dataclass(frozen=True, slots=True)
class DeleteMeter:
    meter_id: int


@dataclass(frozen=True, slots=True)
class AddGroup:
    group: Group


@dataclass(frozen=True, slots=True)
class ModifyGroup:
    group: Group


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    group_id: int


@dataclass(frozen=True, slots=True)
class AddFlow:
    flow: Flow


@dataclass(frozen=True, slots=True)
class ModifyFlow:
    flow: Flow


@dataclass(frozen=True, slots=True)
class DeleteFlow:
    flow: Flow


Change = AddMeter | ModifyMeter | DeleteMeter | AddGroup | ModifyGroup | DeleteGroup | AddFlow | ModifyFlow | DeleteFlow

K = TypeVar("K")
V = TypeVar("V")

# Groups and meters precede the flows that use them, and outlive them.
ORDER: tuple[type[Change], ...] = (
    AddMeter,
    ModifyMeter,
    AddGroup,
    ModifyGroup,
    AddFlow,
    ModifyFlow,
    DeleteFlow,
    DeleteGroup,
    DeleteMeter,
)


def diff(installed: Program, wanted: Program) -> tuple[Change, ...]:
    return tuple(sorted(_changes(installed, wanted), key=_step))


def _step(change: Change) -> tuple[int, int]:
    """Return the order of a change. A new flow without a group goes first: a bucket may resubmit to its table."""
    if isinstance(change, AddFlow) and not any(isinstance(action, ToGroup) for action in change.flow.actions):
        return ORDER.index(AddGroup), -1
    return ORDER.index(type(change)), 0


def _changes(installed: Program, wanted: Program) -> Iterator[Change]:
    for meter in _only_in(wanted.meters, installed.meters):
        yield AddMeter(meter)
    for meter in _other_in(wanted.meters, installed.meters):
        yield ModifyMeter(meter)
    for meter in _only_in(installed.meters, wanted.meters):
        yield DeleteMeter(meter.meter_id)
    for group in _only_in(wanted.groups, installed.groups):
        yield AddGroup(group)
    for group in _other_in(wanted.groups, installed.groups):
        yield ModifyGroup(group)
    for group in _only_in(installed.groups, wanted.groups):
        yield DeleteGroup(group.group_id)
    if wanted.flows is installed.flows or wanted.flows == installed.flows:  # usual: an override changes groups only
        return
    for flow in _only_in(wanted.flows, installed.flows):
        yield AddFlow(flow)
    for flow in _other_in(wanted.flows, installed.flows):
        yield ModifyFlow(flow)
    for flow in _only_in(installed.flows, wanted.flows):
        yield DeleteFlow(flow)


def _only_in(these: Mapping[K, V], those: Mapping[K, V]) -> Iterator[V]:
    if these.keys() <= those.keys():  # usual
        return iter(())
    return (value for key, value in these.items() if key not in those)


def _other_in(wanted: Mapping[K, V], installed: Mapping[K, V]) -> Iterator[V]:
    """Yield changed values. Most are the same object, so identity is compared first: equality is slower."""
    for key, value in wanted.items():
        there = installed.get(key, value)
        if there is not value and there != value:
            yield value
