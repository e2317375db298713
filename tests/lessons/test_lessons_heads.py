from __future__ import annotations

import itertools

import numpy as np
import pytest
from test_lessons_projections import pre_norm

from transformer.analysis.metrics import HeadFigures, head_figures
from transformer.engine import Translator
from transformer.errors import InputError
from transformer.lessons.heads import different_heads, multiplications, slices

TEXT = "Two dogs run through the tall grass."


@pytest.mark.parametrize(("layer", "position"), [(0, 0), (2, 4)])
def test_the_heads_side_by_side_through_w_o_are_the_output(layer: int, position: int, translator: Translator) -> None:
    found = slices(translator, TEXT, layer, position)
    assert (found.outputs.shape, found.concatenated.shape, found.shares.shape) == ((4, 8), (32,), (4, 32))
    assert all(check.ok for check in found.checks), found.checks
    weight = translator.model.get_parameter(f"encoder.{layer}.self_attn.output.weight").numpy()
    for d in (0, 17, 31):
        total = sum(float(found.outputs[h, k]) * float(weight[d, 8 * h + k]) for h in range(4) for k in range(8))
        assert found.output[d] == pytest.approx(total + found.bias[d])
        assert found.shares[:, d].sum() == pytest.approx(total)
    np.testing.assert_allclose(found.lengths[1], np.sqrt((found.shares[1] ** 2).sum()))


def test_a_head_s_output_is_its_weighted_sum_of_values(translator: Translator) -> None:
    found = slices(translator, TEXT, 1, 3)
    ids = translator.translate(TEXT).best.ids
    for head in range(4):
        one = translator.arithmetic(TEXT, ids, "encoder", 1, head, 3)
        np.testing.assert_allclose(found.outputs[head], one.weighted_sum, atol=1e-5)
        np.testing.assert_allclose(found.shares[head], one.share, atol=1e-5)


def test_pre_norm_adds_the_output_to_the_stream_as_it_is(translator: Translator) -> None:
    assert all(check.ok for check in slices(pre_norm(translator), TEXT, 1, 2).checks)


@pytest.mark.parametrize(("layer", "position"), [(3, 0), (0, 99)])
def test_what_is_not_there_is_refused(layer: int, position: int, translator: Translator) -> None:
    with pytest.raises(InputError, match="choose one that is there"):
        slices(translator, TEXT, layer, position)


def test_one_head_or_many_multiply_as_often(translator: Translator) -> None:
    found = multiplications(translator, 5)
    assert [(one.heads, one.width) for one in found] == [(1, 32), (2, 16), (4, 8)]
    for one in found:
        by_hand = 0
        by_hand += sum(1 for _ in itertools.product(range(4), range(5), range(32), range(32)))  # projections
        for _ in range(one.heads):
            by_hand += sum(1 for _ in itertools.product(range(5), range(5), range(one.width)))  # scores
            by_hand += sum(1 for _ in itertools.product(range(5), range(5), range(one.width)))  # weighted sums
        assert one.counted == one.expected == by_hand
        assert one.exponentials == one.heads * 25


def figures(head: int, kind: str = "encoder", **values: float | None) -> HeadFigures:
    nothing = dict.fromkeys(
        ("entropy", "evenness", "distance", "previous", "same", "next", "confidence", "sink", "diagonality")
    )
    return HeadFigures(kind=kind, layer=1, head=head, **{**nothing, **values})


def test_the_two_that_differ_most_are_found_and_named() -> None:
    heads = [
        figures(1, previous=0.9, same=0.1, next=0.2),
        figures(2, previous=0.5, same=0.3, next=0.3, sink=1.0),
        figures(3, previous=0.05, same=0.7, next=0.5),
        figures(4, "cross", sink=1.0, evenness=0.0),
    ]
    pair = different_heads(heads, "encoder")
    assert pair is not None
    assert (pair.first.head, pair.second.head, pair.by) == (1, 3, "previous")
    assert pair.difference == pytest.approx(np.sqrt((0.85**2 + 0.6**2 + 0.3**2) / 3))
    assert different_heads(heads, "cross") is None
    assert different_heads(heads, "decoder") is None


def test_the_first_has_more_of_what_tells_them_apart() -> None:
    pair = different_heads([figures(1, same=0.1), figures(2, same=0.6)], "encoder")
    assert pair is not None
    assert (pair.first.head, pair.by) == (2, "same")
    assert different_heads([figures(1, same=0.1), figures(2, previous=0.6)], "encoder") is None


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_no_other_pair_of_the_model_differs_more(kind: str, translator: Translator) -> None:
    found = head_figures(translator.inspect(TEXT))
    pair = different_heads(found, kind)
    assert pair is not None
    names = ("sink", "evenness", "diagonality") if kind == "cross" else ("previous", "same", "next")
    rows = np.array(
        [[np.nan if (v := getattr(f, n)) is None else v for n in names] for f in found if f.kind == kind], dtype=float
    )
    rows = rows[:, ~np.isnan(rows).all(axis=0)]
    apart = np.sqrt(((rows[:, None] - rows[None]) ** 2).mean(axis=-1))
    assert pair.difference == pytest.approx(apart.max())
