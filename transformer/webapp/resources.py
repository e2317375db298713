"""What pages compute with, kept between reruns: which models there are, the loaded engine, translations, records.

The engine (and with it PyTorch) is imported only where it is needed, so that the frame is on screen first.
Every cache is bounded, and every key names all that the value depends on; arguments with a leading underscore are not
part of a key, and stand beside the hash that is.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from transformer.config import LENGTH_PENALTY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from transformer.analysis.arithmetic import HeadArithmetic
    from transformer.analysis.metrics import HeadFigures
    from transformer.capture.record import AttentionRecord
    from transformer.engine import Translation, Translator


@dataclass(frozen=True)
class Card:
    """What the frame needs to know of a checkpoint before it is loaded; read from its ``config.json`` alone."""

    name: str
    folder: Path
    source: str = "source"
    target: str = "target"
    examples: tuple[str, ...] = ()
    encoder_layers: int = 1
    decoder_layers: int = 1
    heads: int = 1
    about: str = ""
    """What the model was trained to read, in a few words."""
    length_penalty: float = LENGTH_PENALTY
    """alpha of beam search unless the user chooses another, as it was chosen when the model had been trained."""

    @property
    def languages(self) -> dict[str, str]:
        """The names of both languages under ``source`` and ``target``."""
        return {"source": self.source, "target": self.target}

    @property
    def direction(self) -> str:
        """ "English → German"."""
        return f"{self.source} → {self.target}"

    def layers(self, kind: str) -> int:
        """Number of layers that have attention of a kind."""
        return self.encoder_layers if kind == "encoder" else self.decoder_layers


@dataclass(frozen=True)
class Search:
    """Settings of beam search."""

    beam: int
    length_penalty: float
    nbest: int
    coverage_penalty: float = 0.0
    no_repeat_ngram: int = 0
    """0 is off; n forbids a run of n pieces a second time."""
    max_extra: int = 50
    """Pieces that a translation may have beyond its source."""

    def options(self) -> dict[str, Any]:
        """As arguments of ``Translator.translate`` and ``Translator.trace_beams``."""
        return {
            "beam_size": self.beam,
            "length_penalty": self.length_penalty,
            "nbest": self.nbest,
            "max_extra": self.max_extra,
            "coverage_penalty": self.coverage_penalty,
            "no_repeat_ngram": self.no_repeat_ngram,
        }


def warm() -> bool:
    """Whether PyTorch has been loaded; the first visit to a server waits for it."""
    return "torch" in sys.modules


def cards() -> dict[str, Card]:
    """The checkpoints there are, by name, in the order in which they are offered."""
    from transformer.catalogue import found

    return {name: _card(name, folder) for name, folder in found().items()}


def engine(card: Card) -> Translator:
    """The loaded model, shared by all sessions; loaded anew when a file of it changes.

    Raises:
        CheckpointError: the checkpoint is damaged.
    """
    return _engine(str(card.folder), _stamp(card.folder))


def translation(translator: Translator, text: str, search: Search) -> Translation:
    """The translation of a text and its alternatives.

    Raises:
        InputError: the text is empty or too long.
    """
    return _translation(translator, translator.fingerprint, text, search)


def record(translator: Translator, text: str, target_ids: tuple[int, ...] | None, target: str = "") -> AttentionRecord:
    """The attention of the model while it writes ``target_ids``, or ``target`` if there are none.

    Raises:
        InputError: the text is empty, or it or the target is too long.
    """
    return _record(translator, translator.fingerprint, text, target_ids, target)


def figures(translator: Translator, record: AttentionRecord) -> list[HeadFigures]:
    """The figures of every head over a record."""
    ids = tuple(piece.id for piece in record.target_output)
    return _figures(record, translator.fingerprint, record.source_text, ids)


def arithmetic(
    translator: Translator, record: AttentionRecord, kind: str, layer: int, head: int, query: int
) -> HeadArithmetic:
    """Every number of one query of one head; layer, head and query from 0."""
    ids = tuple(piece.id for piece in record.target_output)
    return _arithmetic(translator, translator.fingerprint, record.source_text, ids, kind, layer, head, query)


def scores(translator: Translator, record: AttentionRecord, kind: str, layer: int) -> NDArray[np.float32]:
    """The scores [H, T, S] of one layer before the mask."""
    ids = tuple(piece.id for piece in record.target_output)
    found: NDArray[np.float32] = _scores(translator, translator.fingerprint, record.source_text, ids, kind, layer)
    return found


@st.cache_resource(max_entries=4, show_spinner="Loading the model …")
def _engine(folder: str, stamp: tuple[tuple[str, int, int], ...]) -> Translator:
    from transformer.engine import load

    return load(folder)


@st.cache_data(max_entries=256, show_spinner="Translating …")
def _translation(_translator: Translator, fingerprint: str, text: str, search: Search) -> Translation:
    return _translator.translate(text, **search.options())


@st.cache_data(max_entries=64, show_spinner="Reading the attention maps …")
def _record(
    _translator: Translator, fingerprint: str, text: str, target_ids: tuple[int, ...] | None, target: str
) -> AttentionRecord:
    if target_ids is None:
        return _translator.inspect(text, target=target)
    return _translator.inspect(text, target_ids=target_ids)


@st.cache_data(max_entries=32, show_spinner=False)
def _figures(_record: AttentionRecord, fingerprint: str, text: str, target_ids: tuple[int, ...]) -> list[HeadFigures]:
    from transformer.analysis.metrics import head_figures

    return head_figures(_record)


@st.cache_data(max_entries=128, show_spinner=False)
def _arithmetic(
    _translator: Translator,
    fingerprint: str,
    text: str,
    target_ids: tuple[int, ...],
    kind: str,
    layer: int,
    head: int,
    query: int,
) -> HeadArithmetic:
    return _translator.arithmetic(text, target_ids, kind, layer, head, query)


@st.cache_data(max_entries=32, show_spinner=False)
def _scores(
    _translator: Translator, fingerprint: str, text: str, target_ids: tuple[int, ...], kind: str, layer: int
) -> NDArray[np.float32]:
    return _translator.attention_scores(text, target_ids, kind, layer)


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time of change and size of every file that the engine reads."""
    stats = [(path.name, path.stat()) for path in sorted(folder.iterdir()) if path.suffix in {".safetensors", ".model"}]
    stats.append(("config.json", (folder / "config.json").stat()))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def _card(name: str, folder: Path) -> Card:
    """Read leniently: a damaged file is the loader's to report, with its own sentence."""
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        json.dumps(values, ensure_ascii=False).encode()  # half of a surrogate pair cannot be sent to a browser
    except (OSError, ValueError, RecursionError):
        return Card(name, folder)
    if not isinstance(values, dict):
        return Card(name, folder)
    languages, model = _mapping(values.get("languages")), _mapping(values.get("model"))
    examples = values.get("examples")
    return Card(
        name=name,
        folder=folder,
        source=str(languages.get("source", "source")),
        target=str(languages.get("target", "target")),
        examples=tuple(str(example) for example in examples) if isinstance(examples, list) else (),
        encoder_layers=_count(model.get("encoder_layers"), 6),
        decoder_layers=_count(model.get("decoder_layers"), 6),
        heads=_count(model.get("heads"), 8),
        about=str(_mapping(values.get("data")).get("about", "")),
        length_penalty=_penalty(values.get("length_penalty")),
    )


def _mapping(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _penalty(value: object) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(cast(float, value)) if number and 0.0 <= cast(float, value) <= 10.0 else LENGTH_PENALTY


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and 1 <= value <= 1000 else otherwise
