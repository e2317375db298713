from __future__ import annotations

import pytest

from transformer.webapp.controls import button_label, refused


def test_only_values_on_offer_pass() -> None:
    allowed = {"beam": range(1, 11), "kind": ("encoder", "decoder"), "model": ["only"]}
    assert refused({"beam": "3", "kind": "encoder", "model": "only", "other": "x"}, allowed) == []
    notes = refused({"beam": "11", "kind": "", "model": "x" * 99}, allowed)
    assert notes[0].endswith("beam “11”, which is not there; the usual one is shown. It can be 1 to 10.")
    assert notes[1].endswith("kind “”, which is not there; the usual one is shown. It can be encoder or decoder.")
    assert notes[2].endswith("There is only only.")
    assert "x" * 40 not in notes[2]


@pytest.mark.parametrize(
    ("text", "label"),
    [("A man.", r"A man\."), ("$x$ *a*", r"\$x\$ \*a\*"), ("a\n b", "a b"), (":red[x]", r"\:red\[x\]")],
)
def test_labels_of_buttons_are_escaped(text: str, label: str) -> None:
    assert button_label(text) == label
