"""Trainings of the toy that last a moment, for tests of what starts and follows them."""

from __future__ import annotations

from pathlib import Path

from transformer.lessons.toy_recipe import AROUND, SETTINGS, Plan
from transformer.text.synthetic import reverse_pairs

STEPS = (1, 4, 9)
SMALL = {
    "model.d_model": 16,
    "model.feed_forward": 32,
    "model.encoder_layers": 1,
    "training.epochs": 2,
    "training.batch_tokens": 128,
    "training.dev_sentences": 6,
    "training.stop_at": 100.0,
}


def brief(folder: Path, **changes: object) -> Plan:
    """A plan of a few updates on text files in ``folder``: they have no test part, whose scoring would take longest.

    Changes are settings, ``training__epochs=3``, or fields of the plan, ``limit=1.0``.
    """
    pairs = reverse_pairs(106, seed=1, max_length=5)
    for name, part in (("train", pairs[:100]), ("dev", pairs[100:])):
        for side in ("source", "target"):
            text = "".join(getattr(pair, side) + "\n" for pair in part)
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8")
    files = [
        f"{key} = '{folder / name}'"
        for key, name in (
            ("source", "train.source"),
            ("target", "train.target"),
            ("dev_source", "dev.source"),
            ("dev_target", "dev.target"),
        )
    ]
    lines = ["[data]", *files, "[tokenizer]", "vocab_size = 45", "[training]", "select = 'exact'"]
    (folder / "brief.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {**SETTINGS, **SMALL, **{key.replace("__", "."): one for key, one in changes.items() if "__" in key}}
    fields = {key: one for key, one in changes.items() if "__" not in key}
    around = {**AROUND, "training.log_every": 3, "checkpoint.snapshots": list(STEPS)}
    return Plan(**{"recipe": str(folder / "brief.toml"), "settings": settings, "around": around, **fields})  # type: ignore[arg-type]


def endless(folder: Path) -> Plan:
    """A plan that nobody waits for the end of."""
    return brief(folder, training__epochs=100000)
