from __future__ import annotations

import base64
import dataclasses
import json
import re

import numpy as np

from transformer.capture.record import KINDS, AttentionRecord, Check
from transformer.plots.page import record_page

LANGUAGES = {"source": "English", "target": "German"}


def test_page_holds_every_weight_and_asks_for_nothing(record: AttentionRecord) -> None:
    page = record_page(record, LANGUAGES)
    found = re.search(r'<script type="application/json" id="record">(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found.group(1))
    assert list(data) == list(KINDS)
    for kind in KINDS:
        weights = np.frombuffer(base64.b64decode(data[kind]["weights"]), dtype="<f4").reshape(data[kind]["shape"])
        np.testing.assert_array_equal(np.nan_to_num(weights), record.attention(kind))
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", page)


def test_text_cannot_become_markup(record: AttentionRecord) -> None:
    evil = "</script><script>alert(1)</script><b>"
    piece = dataclasses.replace(record.source[1], label=evil)
    bad = dataclasses.replace(
        record, source_text=evil, target_text=evil, source=(record.source[0], piece, *record.source[2:])
    )
    assert "alert(1)</script>" not in record_page(bad, {"source": evil, "target": evil})


def test_failed_checks_are_shown(record: AttentionRecord) -> None:
    assert "All 1 checks of these numbers hold" in record_page(record, LANGUAGES)
    failed = (Check("rows sum to one", False, 0.2, 1e-5, "Row 1 adds up to 0.8."),)
    page = record_page(dataclasses.replace(record, checks=failed), LANGUAGES)
    assert "1 of 1 checks of these numbers failed" in page
    assert "Row 1 adds up to 0.8." in page
