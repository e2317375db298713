"""The mean of weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from transformer.config import ModelConfig
from transformer.errors import TrainingError
from transformer.nn.model import Transformer
from transformer.training.averaging import load_weights, mean_of, save_weights


def small(seed: int) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(
        ModelConfig(vocab_size=11, d_model=8, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=16)
    )


def test_the_mean_of_three_by_hand(tmp_path: Path) -> None:
    paths = []
    for number, values in enumerate(([1.0, 2.0], [2.0, 4.0], [6.0, 0.0])):
        layer = nn.Linear(2, 1, bias=False)
        nn.init.constant_(layer.weight, 0).data.copy_(torch.tensor([values]))
        paths.append(tmp_path / f"{number}.safetensors")
        save_weights(layer, paths[-1])
    mean = mean_of(paths)
    assert mean["weight"].tolist() == [[3.0, 2.0]]
    assert mean["weight"].dtype == torch.float32
    assert torch.equal(mean_of(paths[:1])["weight"], torch.tensor([[1.0, 2.0]]))


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    first, second = small(1), small(2)
    save_weights(first, tmp_path / "1.safetensors")
    save_weights(second, tmp_path / "2.safetensors")
    stored = safetensors.torch.load_file(tmp_path / "1.safetensors")
    assert "projection.weight" not in stored  # it is source_input.lookup.weight
    model = small(3)
    load_weights(model, mean_of([tmp_path / "1.safetensors", tmp_path / "2.safetensors"]))
    assert model.projection.weight is model.source_input.lookup.weight is model.target_input.lookup.weight
    expected = (first.projection.weight + second.projection.weight) / 2
    torch.testing.assert_close(model.projection.weight, expected, rtol=0, atol=1e-7)


def test_no_files_is_an_error() -> None:
    with pytest.raises(TrainingError, match="at least one file"):
        mean_of([])


@pytest.mark.parametrize("kept", [None, 0, 5, 100, -1])
def test_a_damaged_or_missing_file_is_named(tmp_path: Path, kept: int | None) -> None:
    path = tmp_path / "epoch-001.safetensors"
    if kept is not None:
        save_weights(small(1), path)
        path.write_bytes(path.read_bytes()[:kept])
    fault = "missing" if kept is None else "damaged"
    with pytest.raises(TrainingError, match=rf"epoch-001\.safetensors .*{fault}.*state\.pt"):
        mean_of([path])
