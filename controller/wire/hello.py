"""Which versions a hello offers: read here, because the framework's parser never comes out of an odd one."""

from __future__ import annotations

import struct

from controller.framework import SwitchError, ofproto

HEADER = struct.Struct(ofproto.OFP_HEADER_PACK_STR)
ELEMENT = struct.Struct("!HH")  # type, length (7.5.1)


def versions_offered(version: int, data: bytes) -> set[int]:
    """The versions a hello offers (7.5.1): its bitmaps', or without any all up to the header's."""
    offered: set[int] = set()
    bitmaps, offset = False, HEADER.size
    while len(data) - offset >= ELEMENT.size:
        kind, length = ELEMENT.unpack_from(data, offset)
        if length < ELEMENT.size or offset + length > len(data):
            raise SwitchError(f"sent a hello with an element of length {length}")
        if kind == ofproto.OFPHET_VERSIONBITMAP:
            bitmaps = True
            for place in range((length - ELEMENT.size) // 4):
                (bits,) = struct.unpack_from("!I", data, offset + ELEMENT.size + 4 * place)
                offered |= {32 * place + bit for bit in range(32) if bits >> bit & 1}
        offset += (length + 7) // 8 * 8
    return offered if bitmaps else set(range(1, version + 1))
