"""The decoding benchmark: its peers compute what our model computes, and everybody writes as much as was asked for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from benchmarks import baselines, decode, pairs, peers
from transformer.config import EOS_ID, SOS_ID, ModelConfig
from transformer.errors import DataError
from transformer.nn.model import Transformer

CONFIG = ModelConfig(48, 16, 2, 2, 1, 32, dropout=0.0, max_length=64)
PAIRS = [
    ([SOS_ID, 5, 6, EOS_ID], [7, 8]),
    ([SOS_ID, 9, EOS_ID], [10]),
    ([SOS_ID, 11, 12, 13, EOS_ID], [14, 15]),
    ([SOS_ID, 20, EOS_ID], [21, 22, 23]),
]
with_marian = pytest.mark.skipif(not baselines.marian_is_installed(), reason="Hugging Face's transformers is missing")
with_ct2 = pytest.mark.skipif(not peers.ctranslate2_is_installed(), reason="CTranslate2 is missing")


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(3)
    model = Transformer(CONFIG).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("beam_size", [1, 3])
def test_ours_writes_as_much_as_was_asked_for(model: Transformer, beam_size: int) -> None:
    written = decode.Ours(model, 20)(PAIRS, beam_size)
    assert [len(one) for one in written] == [2, 1, 2, 3]
    assert all(EOS_ID not in one for one in written)


@with_marian
def test_marian_is_the_same_model(model: Transformer) -> None:
    source, target = (
        torch.tensor([[SOS_ID, 5, 6, EOS_ID], [SOS_ID, 7, EOS_ID, 0]]),
        torch.tensor([[2, 9, 4], [2, 5, 5]]),
    )
    with torch.inference_mode():
        torch.testing.assert_close(peers.marian_of(model)(source, target), model(source, target), atol=1e-4, rtol=1e-4)


@with_marian
@pytest.mark.parametrize("beam_size", [1, 3])
def test_marian_writes_as_much_as_was_asked_for(model: Transformer, beam_size: int) -> None:
    assert [len(one) for one in decode.Marian(model, 2)(PAIRS, beam_size)] == [2, 1, 2, 3]


@with_ct2
def test_ctranslate2_is_the_same_model(model: Transformer, tmp_path: Path) -> None:
    translator = peers.ctranslate2_of(model, tmp_path / "model", "float32", 1)
    names = peers.piece_names(CONFIG.vocab_size)
    source, target = [SOS_ID, 5, 6, 30, EOS_ID], [9, 4, 31]
    (scored,) = translator.score_batch([[names[piece] for piece in source]], [[names[piece] for piece in target]])
    with torch.inference_mode():
        logits = model(torch.tensor([source]), torch.tensor([[SOS_ID, *target]]))
    expected = torch.log_softmax(logits[0], -1)[range(4), [*target, EOS_ID]]
    torch.testing.assert_close(torch.tensor(scored.log_probs), expected, atol=1e-4, rtol=1e-4)


@with_ct2
@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_ctranslate2_writes_as_much_as_was_asked_for(model, kind: str, beam_size: int, tmp_path: Path) -> None:
    translator = peers.ctranslate2_of(model, tmp_path / "model", kind, 1)
    written = decode.CTranslate2(translator, CONFIG.vocab_size, 2)(PAIRS, beam_size)
    assert [len(one) for one in written] == [2, 1, 2, 3]


@with_ct2
@with_marian
def test_all_write_the_same_greedily(model: Transformer, tmp_path: Path) -> None:
    translator = peers.ctranslate2_of(model, tmp_path / "model", "float32", 1)
    others = (decode.Marian(model, 8), decode.CTranslate2(translator, CONFIG.vocab_size, 8))
    ours = decode.Ours(model, 100)(PAIRS, 1)
    for other in others:
        for own, one in zip(ours, other(PAIRS, 1), strict=True):
            same = [a == b for a, b in zip(own, one, strict=True)]
            assert all(same) or one[same.index(False)] < 4  # the others may write <PAD>, <UNK> and <SOS>


def test_equal_lengths_hold_every_sentence_once() -> None:
    groups = list(decode.equal_lengths(PAIRS, 1))
    assert [(length, len(group)) for length, group in groups] == [(1, 1), (2, 1), (2, 1), (3, 1)]
    assert sorted(index for _, group in groups for index in group) == [0, 1, 2, 3]
    assert [group for _, group in decode.equal_lengths(PAIRS, 9)] == [[1], [0, 2], [3]]


def test_a_line_for_every_system_and_mode_and_the_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    systems = ["ours"] + ["marian"] * baselines.marian_is_installed()
    arguments = ["--preset", "tiny", "--rounds", "1", "--sentences", "3", "--noisy", "--threads", "1", "--systems"]
    assert decode.main([*arguments, *systems]) == 0
    *lines, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["mode"], line["system"]) for line in lines] == [
        (mode, system)
        for mode in ("greedy", "one sentence, greedy", "beam 5", "one sentence, beam 5")
        for system in systems
    ]
    assert all(line["value"] > 0 and line["unit"] in ("ms", "target tokens/s") for line in lines)
    if "marian" in systems:
        first = last["ratios"]["tiny"]
        assert first["greedy"]["ours/marian"] == pytest.approx(lines[0]["value"] / lines[1]["value"], rel=0.05)
        waited = first["one sentence, greedy"]["ours/marian"]
        assert waited == pytest.approx(lines[3]["value"] / lines[2]["value"], rel=0.05)


def test_test2016_in_the_shipped_model_s_pieces(tmp_path: Path) -> None:
    for language, text in (("en", "Two dogs run.\nA man.\n"), ("de", "Zwei Hunde laufen.\nEin Mann.\n")):
        (tmp_path / f"test_2016_flickr.{language}.gz").write_bytes(gzip.compress(text.encode()))
    (first, _) = pairs.multi30k_test(tmp_path)
    assert first[0][0] == SOS_ID
    assert first[0][-1] == EOS_ID
    assert len(first[1]) >= 3
    with pytest.raises(DataError, match=r"test_2016_flickr\.en\.gz"):
        pairs.multi30k_test(tmp_path / "nowhere")
