# SPDX-License-Identifier: Apache-2.0
"""Checks that refuse flows and groups like Open vSwitch 3.1, with the errors of OpenFlow 1.3."""

from __future__ import annotations

from collections.abc import Container

from controller.program.program import Action, DecTtl, Flow, Group, GroupKind, Move, Output, SetField, ToGroup
from tests.fakes.fields import IP, Field, IllDefined, bits, field, satisfied

TABLES = range(254)  # 254 is Open vSwitch's own
MAX_PORT = 0xFF00


class TableRefusal(Exception):
    """A refusal by the switch: the name of the OpenFlow error and its subject."""

    def __init__(self, error: str, about: str) -> None:
        super().__init__(f"{error}: {about}")
        self.error = error


def check_flow(flow: Flow) -> None:
    """Check a flow against the rules of any switch."""
    if [name for name, _ in flow.match] != sorted({name for name, _ in flow.match}):
        raise IllDefined(f"a match is sorted by name and names a field once: {flow.match}")
    have = dict(flow.match)
    for name, value in flow.match:
        bits(name, value)
        if not satisfied(field(name).needs, have):
            raise TableRefusal("OFPBMC_BAD_PREREQ", f"{name} is matched without {dict(field(name).needs)} in {flow}")
    if flow.table not in TABLES:
        raise TableRefusal("OFPBRC_EPERM", f"there is no table {flow.table} for {flow}")
    if flow.goto is not None and flow.goto <= flow.table:
        raise TableRefusal("OFPBIC_BAD_TABLE_ID", f"table {flow.table} cannot go to table {flow.goto}")
    for action in flow.actions:
        _check_action(action)
        needs = [named.needs for named in _named(action)] + ([IP] if isinstance(action, DecTtl) else [])
        if not all(satisfied(need, have) for need in needs):
            raise TableRefusal("OFPBAC_MATCH_INCONSISTENT", f"{action} needs {needs} in the match of {flow}")


def check_place(flow: Flow, groups: Container[int], meters: Container[int]) -> None:
    """Check a flow against this switch's groups and meters. Open vSwitch does so only when it installs the flow."""
    if flow.meter is not None and flow.meter not in meters:
        raise TableRefusal("OFPMMFC_INVALID_METER", f"there is no meter {flow.meter:#x} for {flow}")
    for action in flow.actions:
        if isinstance(action, ToGroup) and action.group_id not in groups:
            raise TableRefusal("OFPBAC_BAD_OUT_GROUP", f"there is no group {action.group_id:#x} for {flow}")


def check_group(group: Group) -> None:
    """Check a group. Only a packet checks the fields and groups that a bucket names."""
    for bucket in group.buckets:
        if group.kind is GroupKind.ALL and bucket.watch_port is not None:
            raise TableRefusal("OFPGMFC_WATCH_UNSUPPORTED", f"an ALL group watches no port: {group}")
        if group.kind is GroupKind.FAST_FAILOVER and bucket.watch_port is None:
            raise TableRefusal("OFPGMFC_INVALID_GROUP", f"every FAST_FAILOVER bucket watches a port: {group}")
        for action in bucket.actions:
            _check_action(action)


def _check_action(action: Action) -> None:
    """Check an action of a flow or a bucket."""
    match action:
        case SetField(name, value):
            if bits(name, value)[1] != (1 << field(name).bits) - 1:
                raise IllDefined(f"a field is set whole: {action}")
            _check_settable(name)
        case Move(source, destination):
            if (field(source).kind, field(source).bits) != (field(destination).kind, field(destination).bits):
                raise IllDefined(f"a whole field moves into one of its own kind: {action}")
            _check_settable(destination)
        case Output(port) if port >= MAX_PORT:
            raise TableRefusal("OFPBAC_BAD_OUT_PORT", f"{port} is no port's number")
        case _:
            pass


def _check_settable(name: str) -> None:
    if not field(name).settable:
        raise IllDefined(f"{name} cannot be set")


def _named(action: Action) -> list[Field]:
    match action:
        case SetField(name, _):
            return [field(name)]
        case Move(source, destination):
            return [field(source), field(destination)]
        case _:
            return []
