# SPDX-License-Identifier: Apache-2.0
"""QR codes, for a phone that should not type a token."""

from __future__ import annotations

import segno

QUIET = 4  # modules around the code (ISO/IEC 18004, 9.1)


def rows(text: str) -> tuple[str, ...]:
    """Return the code's modules: a string of 0 and 1 for each row, with the quiet zone."""
    code = segno.make_qr(text, error="m")
    return tuple("".join(str(module) for module in row) for row in code.matrix_iter(border=QUIET))
