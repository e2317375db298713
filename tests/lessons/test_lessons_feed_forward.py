from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from between_models import SENTENCE, normalising_first, through_modules

from transformer.errors import InputError
from transformer.lessons import feed_forward

HIDDEN = np.array(
    [
        [0.0, 2.0, 0.0, 1.0, 0.0],
        [0.0, 1.0, 0.0, 3.0, 0.5],
        [0.0, 0.0, 0.0, 0.1, 0.0],
    ],
    dtype=np.float32,
)


@pytest.fixture(scope="module", params=["paper", "normalises first"])
def model(request, translator, tiny_tokenizer, tmp_path_factory):
    if request.param == "paper":
        return translator
    return normalising_first(tiny_tokenizer, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def ids(model) -> tuple[int, ...]:
    return model.translate(SENTENCE, beam_size=2, max_extra=4).ids


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_activations_are_the_formula_s(model, ids, stack: str) -> None:
    found = feed_forward.activations(model, SENTENCE, ids, stack)
    seen = through_modules(model, ids)
    weights = {name: value.numpy().astype(float) for name, value in model.model.state_dict().items()}
    for layer, hidden in enumerate(found):
        path = f"{stack}.{layer}.feed_forward"
        given, output = (array.astype(float) for array in seen[path])
        inner = given @ weights[f"{path}.inner.weight"].T + weights[f"{path}.inner.bias"]
        if model.config.activation == "relu":
            expected = np.maximum(inner, 0.0)
        else:
            expected = inner * 0.5 * (1.0 + np.vectorize(math.erf)(inner / math.sqrt(2.0)))
        np.testing.assert_allclose(hidden, expected, atol=1e-5)
        vectors = feed_forward.outward(model, stack, layer)
        bias = weights[f"{path}.outer.bias"]
        summed = sum(hidden[:, unit, None] * vectors[unit] for unit in range(hidden.shape[1])) + bias
        np.testing.assert_allclose(summed, output, atol=1e-5)


def test_shares_and_order_of_units_whose_answer_is_known() -> None:
    np.testing.assert_allclose(feed_forward.active_share(HIDDEN), [0.4, 0.6, 0.2])
    assert feed_forward.active_share(np.stack([HIDDEN, HIDDEN])).shape == (2, 3)
    assert feed_forward.never_active(HIDDEN) == 2
    assert feed_forward.busiest_first(HIDDEN).tolist() == [3, 1, 4, 0, 2]
    assert feed_forward.never_active(-HIDDEN) == 5


def test_strongest_units_whose_answer_is_known() -> None:
    vectors = np.array([[1.0, 0.0], [3.0, 4.0], [1.0, 1.0], [0.0, 2.0], [0.0, 0.0]], dtype=np.float32)
    first, second = feed_forward.strongest(HIDDEN, 0, vectors, 4)  # the others are not active
    assert (first.number, first.value, first.length, first.active_at) == (1, 2.0, 10.0, 2)
    assert (second.number, second.value, second.length, second.active_at) == (3, 1.0, 2.0, 3)
    assert [unit.number for unit in feed_forward.strongest(HIDDEN, 1, vectors, 2)] == [3, 1]
    with pytest.raises(InputError, match="position must be from 0 to 2"):
        feed_forward.strongest(HIDDEN, 3, vectors, 2)


def test_what_a_unit_adds_is_gone_without_it(translator) -> None:
    ids = translator.translate(SENTENCE, beam_size=1, max_extra=4).ids
    hidden = feed_forward.activations(translator, SENTENCE, ids, "encoder")[1]
    unit = feed_forward.strongest(hidden, 2, feed_forward.outward(translator, "encoder", 1), 1)[0]
    outer = translator.model.get_submodule("encoder.1.feed_forward.outer")
    with torch.inference_mode():
        row = torch.from_numpy(hidden[2].copy())
        whole = outer(row)
        row[unit.number] = 0.0
        assert unit.length == pytest.approx(float((whole - outer(row)).norm()), rel=1e-4)


def test_each_position_is_on_its_own(model, ids) -> None:
    """The feed-forward network gives the same without the other positions; attention does not."""
    for stack in ("encoder", "decoder"):
        found = feed_forward.alone(model, SENTENCE, ids, stack, 1, 2)
        assert found.feed_forward < 1e-5
        assert found.attention > 0.01
    first = feed_forward.alone(model, SENTENCE, ids, "decoder", 0, 0)
    assert first.attention < 1e-5  # the first position of the decoder sees nothing but itself


def test_alone_refuses_what_is_not_there(translator) -> None:
    with pytest.raises(InputError, match="layer must be from 0 to 1"):
        feed_forward.alone(translator, SENTENCE, (5, 3), "decoder", 2, 0)
    with pytest.raises(InputError, match="position must be from 0 to 1"):
        feed_forward.alone(translator, SENTENCE, (5, 3), "decoder", 0, 2)


def test_sizes_are_counted(model) -> None:
    found = feed_forward.sizes(model)
    modules = dict(model.model.named_modules())

    def count(path: str) -> int:
        return sum(parameter.numel() for parameter in modules[path].parameters())

    assert found.parameters == count("encoder.0.feed_forward")
    assert found.attention_parameters == count("encoder.0.self_attn")
    all_of_them = sum(count(path) for path in modules if path.endswith(".feed_forward"))
    assert found.share == pytest.approx(all_of_them / sum(p.numel() for p in model.model.parameters()))
    inner, outer = modules["encoder.0.feed_forward.inner"], modules["encoder.0.feed_forward.outer"]
    assert found.multiplications == inner.weight.numel() + outer.weight.numel()


def test_promoted_pieces_have_the_largest_products(model) -> None:
    units = [3, 0]
    found = feed_forward.promoted(model, "decoder", 1, units, 4)
    weights = model.model.state_dict()
    columns = weights["decoder.1.feed_forward.outer.weight"].numpy()
    for unit, labels in zip(units, found, strict=True):
        products = weights["projection.weight"].numpy() @ columns[:, unit]
        order = np.argsort(-products)[:4]
        assert labels == [model.tokenizer.target_pieces([int(number)])[0].label for number in order]
    assert feed_forward.promoted(model, "decoder", 1, [], 4) == []
