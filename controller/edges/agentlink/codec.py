# SPDX-License-Identifier: Apache-2.0
"""Conversion between the messages of api/agent.proto and the values of controller/protocol, by the names of fields.

A value's field has the name of its message's field. A message with one repeated field is a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

from controller.edges.trust.refusals import Reason, Refused
from controller.model.text import shortened

LONGEST_TEXT = 400
MOST_OF_A_KIND = 64  # values in a repeated field, unless its reader says otherwise

Value = TypeVar("Value")
Convert = Callable[[Any], Any]


def breach(sentence: str) -> Refused:
    return Refused(Reason.SPEECH, sentence)


# From an agent: a text is short and printable, an address has one spelling, and anything else is refused


@lru_cache(maxsize=1 << 14)
def canonical_address(spelling: str) -> str:
    """Return the canonical spelling. Empty stays empty: the kernel reported none."""
    try:
        if "%" in spelling:
            raise ValueError("an address here must not have a zone")
        found = ip_address(spelling) if spelling else ""
    except ValueError:
        raise breach(f"sent {checked_text(spelling)!r} for an address") from None
    return str((isinstance(found, IPv6Address) and found.ipv4_mapped) or found)


def checked_text(text: str, most: int = LONGEST_TEXT) -> str:
    short = shortened(text, most)
    return short if short.isprintable() else "".join(one if one.isprintable() else " " for one in short)


def reader(kind: Callable[..., Value], most: Mapping[str, int] | None = None, **own: Convert) -> Callable[..., Value]:
    """Return a function that reads a message as a value of this kind, after other arguments that it is given.

    `most` bounds repeated fields, and `own` reads single fields. Texts whose names end in `address` are addresses.
    """
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name != "session"}
    names, bounds = tuple(hints), most or {}
    get = attrgetter(*names) if len(names) > 1 else lambda message: (getattr(message, names[0]),)
    converts = [(at, own.get(name) or _reader(kind, name, hints[name], bounds)) for at, name in enumerate(names)]
    given = [(at, each) for at, each in converts if each is not None]
    optional = [(at, name) for at, name in enumerate(names) if NoneType in get_args(hints[name])]

    def read(message: Message, *first: object) -> Value:
        values = list(get(message))
        for at, convert in given:
            values[at] = convert(values[at])
        for at, name in optional:
            if not message.HasField(name):
                values[at] = None
        return kind(*first, *values)

    return read


def _reader(kind: Callable[..., object], name: str, hint: Any, bounds: Mapping[str, int]) -> Convert | None:
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not NoneType)
    if get_origin(hint) is tuple:
        of = f"{name} of {kind.__name__}"
        return _tuple_of(of, _reader(kind, name, get_args(hint)[0], bounds), bounds.get(name, MOST_OF_A_KIND))
    if hint is str:
        return canonical_address if name.endswith("address") else checked_text
    return None if hint in (int, bool) else reader(hint)


def _tuple_of(what: str, convert: Convert | None, most: int) -> Convert:
    def read(values: Any) -> tuple[Any, ...]:
        if len(values) > most:
            raise breach(f"reported {len(values)} {what}: expected at most {most}")
        return tuple(map(convert, values)) if convert is not None else tuple(values)

    return read


# To an agent


def write(value: object, message: Message) -> None:
    """Fill a message. A None leaves its field unset, and what the message has no field for stays here."""
    message.SetInParent()
    if type(value) is tuple:
        (field,) = message.DESCRIPTOR.fields
        _write_field(value, message, field)
        return
    for field in message.DESCRIPTOR.fields:
        found = getattr(value, field.name)
        if found is not None:
            _write_field(found, message, field)


def _write_field(value: Any, message: Message, field: Any) -> None:
    if field.message_type is None and not field.is_repeated:
        setattr(message, field.name, value)
        return
    target = getattr(message, field.name)
    if field.message_type is None:
        target.extend(value)
    elif field.is_repeated:
        for each in value:
            write(each, target.add())
    else:
        write(value, target)
