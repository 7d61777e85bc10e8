"""Texts of agents: short, of what can be shown; and addresses, in one spelling. What is neither is refused."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from controller.agency.refusals import Reason, Refused
from controller.brevity import shortened

LONGEST_TEXT = 400
LONGEST_ACCOUNT = 4000  # of what was done: a sentence for each of some forty paths


@lru_cache(maxsize=1 << 14)
def address(spelling: str) -> str:
    """In the one spelling that can be compared; empty where the kernel did not tell it."""
    try:
        if "%" in spelling:
            raise ValueError("a zone may be any text, and is of no use here")
        found = ip_address(spelling) if spelling else ""
    except ValueError:
        raise against(f"sent {text(spelling)!r} for an address") from None
    return str((isinstance(found, IPv6Address) and found.ipv4_mapped) or found)


def text(said: str, most: int = LONGEST_TEXT) -> str:
    short = shortened(said, most)
    return short if short.isprintable() else "".join(one if one.isprintable() else " " for one in short)


def against(sentence: str) -> Refused:
    return Refused(Reason.SPEECH, sentence)
