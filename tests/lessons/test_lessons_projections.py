from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer.checkpoint import Checkpoint
from transformer.engine import Translator
from transformer.errors import InputError
from transformer.lessons.projections import asymmetry, described, learned_scores, projections, raw_scores

TEXT = "Two dogs run through the tall grass."


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (1, 2), (2, 3)])
def test_each_number_is_a_sum_over_the_dimensions(layer: int, head: int, translator: Translator) -> None:
    """By loops, from the stored matrices."""
    found = projections(translator, TEXT, layer, head)
    attention = translator.model.get_submodule(f"encoder.{layer}.self_attn")
    assert all(check.ok for check in found.checks), found.checks
    assert len(found.checks) == 3
    for name, ours in (("query", found.queries), ("key", found.keys), ("value", found.values)):
        matrix, bias = getattr(attention, name).weight, getattr(attention, name).bias
        for position in (0, 3):
            for k in range(8):
                row = head * 8 + k
                total = float(bias[row])
                for d in range(32):
                    total += found.entering[position, d] * float(matrix[row, d])
                assert ours[position, k] == pytest.approx(total, abs=1e-9)


def test_layer_1_reads_scaled_embeddings_and_positions(translator: Translator) -> None:
    found = projections(translator, TEXT, 0, 0)
    model, ids = translator.model, translator.tokenizer.encode(TEXT)
    table, places = model.source_input.lookup.weight, model.source_input.position_table(0, len(ids))
    expected = table[ids] * np.sqrt(32) + places
    np.testing.assert_allclose(found.entering, expected.numpy(), atol=1e-6)


def test_the_softmax_of_the_learned_scores_is_the_attention_map(translator: Translator) -> None:
    record = translator.inspect(TEXT)
    for layer, head in ((0, 1), (2, 0)):
        scores = learned_scores(projections(translator, TEXT, layer, head)).scores
        weights = torch.softmax(torch.tensor(scores), dim=-1).numpy()
        np.testing.assert_allclose(weights, record.encoder[layer, head], atol=1e-5)


def test_raw_scores_do_not_care_who_asks(translator: Translator) -> None:
    found = projections(translator, TEXT, 0, 0)
    raw, learned = raw_scores(found), learned_scores(found)
    x = found.entering
    for i, j in ((0, 1), (4, 2)):
        assert raw.scores[i, j] == pytest.approx(sum(x[i, d] * x[j, d] for d in range(32)) / np.sqrt(32))
        assert raw.scores[i, j] == pytest.approx(raw.scores[j, i])
    assert raw.asymmetry == pytest.approx(0.0, abs=1e-12)
    assert learned.asymmetry > 0.01


def test_asymmetry_of_matrices_whose_answer_is_known() -> None:
    turning = np.array([[0.0, 3.0], [-3.0, 0.0]])
    assert asymmetry(turning) == pytest.approx(1.0)
    assert asymmetry(turning @ turning) == 0.0
    assert asymmetry(np.zeros((3, 3))) == 0.0
    # half symmetric, half not: A = S + K with equal lengths
    assert asymmetry(np.array([[3.0, 3.0], [-3.0, 3.0]])) == pytest.approx(np.sqrt(0.5))
    random = np.random.default_rng(0).standard_normal((300, 300))
    assert asymmetry(random) == pytest.approx(np.sqrt(0.5), abs=0.02)


def test_figures_of_a_table_by_hand() -> None:
    found = described(np.array([[np.log(3.0), 0.0], [5.0, 5.0]]))
    assert found.own_weight == pytest.approx((0.75 + 0.5) / 2)
    assert found.own_largest == 1.0  # a tie counts
    assert described(np.array([[0.0, 1.0], [0.0, 1.0]])).own_largest == 0.5


def test_a_pre_norm_model_reads_the_normalised_stream(translator: Translator) -> None:
    other = pre_norm(translator)
    for layer in (0, 2):
        found = projections(other, TEXT, layer, 1)
        assert all(check.ok for check in found.checks), found.checks


def pre_norm(translator: Translator) -> Translator:
    """Random weights and the other order of normalisation."""
    import dataclasses

    from transformer.nn.model import Transformer

    torch.manual_seed(1)
    config = dataclasses.replace(translator.config, norm_first=True)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    checkpoint: Checkpoint = dataclasses.replace(
        translator._checkpoint, model=model.eval().requires_grad_(False), config=config
    )
    return Translator(checkpoint)


@pytest.mark.parametrize(("layer", "head"), [(3, 0), (0, 4), (-1, 0)])
def test_a_head_that_is_not_there_is_refused(layer: int, head: int, translator: Translator) -> None:
    with pytest.raises(InputError, match="choose one that is there"):
        projections(translator, TEXT, layer, head)
