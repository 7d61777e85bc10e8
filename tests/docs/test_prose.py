# SPDX-License-Identifier: Apache-2.0
"""Sentences are short: a page has at most 18 words a sentence on average, and at most 3 % of them exceed 30."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean

import pytest

from tests.docs.pages import PAGES, named, text

MEAN_WORDS = 18
LONG_WORDS = 30
LONG_SHARE = 0.03
A_FEW = 1  # a short page may have one long sentence


def sentences(page: Path) -> list[str]:
    """Return the sentences of paragraphs and list items. Headings and tables have none. Inline code is one word."""
    prose = re.sub(r"`[^`]*`", "code", text(page))
    prose = re.sub(r"!?\[([^]]*)]\([^)]*\)", r"\1", prose)
    prose = re.sub(r"^(#|\||    ).*$", "", prose, flags=re.MULTILINE)
    prose = re.sub(r"^ *([-*]|\d+\.) ", "\n\n", prose, flags=re.MULTILINE)
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", prose))
    found = (each for paragraph in paragraphs for each in re.split(r"(?<=[.!?])[)*_]*\s+(?=[A-Z(*_])", paragraph))
    return [each for each in found if re.search(r"\w", each)]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_sentences_are_short(page: Path) -> None:
    lengths = {each: len(each.split()) for each in sentences(page)}
    long = sorted((each for each, words in lengths.items() if words > LONG_WORDS), key=lambda each: -lengths[each])
    average = mean(lengths.values())
    assert average <= MEAN_WORDS, f"{named(page)}: {average:.1f} words a sentence, expected at most {MEAN_WORDS}"
    allowed = max(A_FEW, int(LONG_SHARE * len(lengths)))
    assert len(long) <= allowed, f"{named(page)}: {len(long)} sentences of over {LONG_WORDS} words: {long}"
