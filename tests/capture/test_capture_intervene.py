"""Interventions on cross-attention: what they change, and that they change nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer.capture.intervene import Intervention, forced_pass
from transformer.config import SOS_ID
from transformer.engine import Translator
from transformer.errors import InputError

SENTENCE = "Two dogs run through the tall grass."
TARGET = [SOS_ID, 9, 30, 17]


@pytest.fixture
def source(translator: Translator) -> list[int]:
    return translator.tokenizer.encode(SENTENCE)


def test_no_intervention_changes_nothing_bit_for_bit(translator: Translator, source: list[int]) -> None:
    log_probs, cross = forced_pass(translator.model, source, TARGET)
    for nothing in (Intervention(), Intervention(layer=1, head=2, row=0)):
        again, same = forced_pass(translator.model, source, TARGET, nothing)
        assert torch.equal(log_probs, again)
        assert np.array_equal(cross, same)
    assert cross.shape == (2, 4, 4, len(source))
    with torch.no_grad():
        logits = translator.model(torch.tensor([source]), torch.tensor([TARGET]))
    torch.testing.assert_close(log_probs, torch.log_softmax(logits[0], dim=-1), atol=1e-5, rtol=0)


def test_muting_is_a_mask(translator: Translator, source: list[int]) -> None:
    """An independent way to the same numbers: the encoder reads all, the decoder may not look at two columns."""
    model = translator.model
    mask = torch.ones(1, len(source), dtype=torch.bool)
    memory = model.encode(torch.tensor([source]))
    mask[0, [1, 3]] = False
    with torch.no_grad():
        logits = model.project(model.decode(torch.tensor([[SOS_ID]]), memory, mask))
    log_probs, cross = forced_pass(model, source, [SOS_ID], Intervention(muted=(1, 3)))
    torch.testing.assert_close(log_probs, torch.log_softmax(logits[0], dim=-1), atol=1e-5, rtol=0)
    assert (cross[..., [1, 3]] == 0.0).all()
    np.testing.assert_allclose(cross.sum(axis=-1), 1.0, atol=1e-5)


def test_forcing_is_a_mask_of_one(translator: Translator, source: list[int]) -> None:
    model = translator.model
    mask = torch.zeros(1, len(source), dtype=torch.bool)
    mask[0, 2] = True
    with torch.no_grad():
        memory = model.encode(torch.tensor([source]))
        logits = model.project(model.decode(torch.tensor([[SOS_ID]]), memory, mask))
    log_probs, cross = forced_pass(model, source, [SOS_ID], Intervention(forced=2))
    torch.testing.assert_close(log_probs, torch.log_softmax(logits[0], dim=-1), atol=1e-5, rtol=0)
    assert np.array_equal(cross, np.broadcast_to(np.eye(len(source), dtype=np.float32)[2], cross.shape))


@pytest.mark.parametrize(("row", "changed"), [(None, 3), (3, 3), (1, 1), (0, 0)])
def test_only_the_row_is_changed_and_only_what_follows_feels_it(
    row: int | None, changed: int, translator: Translator, source: list[int]
) -> None:
    plain, before = forced_pass(translator.model, source, TARGET)
    log_probs, cross = forced_pass(translator.model, source, TARGET, Intervention(forced=2, row=row))
    assert torch.equal(log_probs[:changed], plain[:changed])
    assert not torch.allclose(log_probs[changed], plain[changed], atol=1e-3)
    assert np.array_equal(cross[:, :, :changed], before[:, :, :changed])
    assert (cross[:, :, changed, 2] == 1.0).all()
    # Rows behind it in the first layer have not read anything that changed yet.
    assert np.array_equal(cross[0, :, changed + 1 :], before[0, :, changed + 1 :])


def test_one_head_of_one_layer(translator: Translator, source: list[int]) -> None:
    _, before = forced_pass(translator.model, source, TARGET)
    _, cross = forced_pass(translator.model, source, TARGET, Intervention(muted=(0,), layer=1, head=2))
    assert (cross[1, 2, -1, 0], before[1, 2, -1, 0] > 0.0) == (0.0, True)
    cross[1, 2, -1] = before[1, 2, -1]
    assert np.array_equal(cross, before)


def test_nothing_left_to_look_at_is_zero_and_no_nan(translator: Translator, source: list[int]) -> None:
    everything = tuple(range(len(source)))
    log_probs, cross = forced_pass(translator.model, source, TARGET, Intervention(muted=everything))
    assert (cross[:, :, -1] == 0.0).all()
    assert (cross[:, :, 0].sum(axis=-1) > 0.99).all()
    assert log_probs.isfinite().all()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"muted": (-1,)}, "muted"),
        ({"muted": (1.5,)}, "muted"),
        ({"forced": True}, "forced"),
        ({"layer": -1}, "layer"),
        ({"row": "last"}, "row"),
        ({"muted": (1, 2), "forced": 2}, "forced must not be a muted column"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Intervention(**values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"muted": (99,)}, "muted must be below"),
        ({"forced": 99}, "forced must be below"),
        ({"forced": 0, "layer": 2}, "layer must be below 2"),
        ({"forced": 0, "head": 4}, "head must be below 4"),
        ({"forced": 0, "row": 4}, "row must be below 4"),
    ],
)
def test_what_points_outside_is_refused(values: dict, said: str, translator: Translator, source: list[int]) -> None:
    with pytest.raises(InputError, match=said):
        forced_pass(translator.model, source, TARGET, Intervention(**values))


def test_it_can_be_a_key() -> None:
    assert hash(Intervention(muted=[1, 2])) == hash(Intervention(muted=(1, 2)))  # type: ignore[arg-type]
