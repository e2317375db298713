"""How a translation is written: the counts against PyTorch's own counter, the weighing against numpy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer.config import EOS_ID, SOS_ID, ModelConfig
from transformer.engine import Translator
from transformer.lessons.writing import scores_by_alpha, weighing, work
from transformer.nn.model import Transformer
from transformer.nn.probe import watching

SENTENCE = "Two dogs run through the snow."


class Blind:
    """A sink that wants nothing."""

    def wants(self, name: str) -> bool:
        return False

    def receive(self, name: str, value: torch.Tensor) -> None:
        raise AssertionError(name)


def counted(run) -> int:
    """Multiplications of the matrix products that ``run`` makes; the counter counts additions as well. Somebody looks,
    because it does not know the fused attention."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode(), watching(Blind()):
        run()
    return counter.get_total_flops() // 2


@pytest.mark.parametrize("changes", [{}, {"encoder_layers": 1, "decoder_layers": 3, "norm_first": True}], ids=str)
@pytest.mark.parametrize(("source", "steps"), [(1, 1), (7, 4), (12, 9)])
def test_work_is_what_pytorch_counts(changes, source: int, steps: int) -> None:
    config = dataclasses.replace(ModelConfig(50, 16, 4, 2, 2, 24, max_length=32), **changes)
    model = Transformer(config).eval()
    ids, mask = torch.full((1, source), 5), torch.ones(1, source, dtype=torch.bool)
    found = work(config, source, steps)
    with torch.inference_mode():
        memory = model.encode(ids, mask)
        state = model.start(memory, mask)
    assert found.once == counted(lambda: model.start(model.encode(ids, mask), mask))
    last = torch.tensor([7])
    for step in range(steps):
        assert found.kept[step] == counted(lambda state=state: model.project(model.step(last, state)[0]))
        whole = torch.full((1, step + 1), 7)
        assert found.anew[step] == counted(lambda whole=whole: model.project(model.decode(whole, memory, mask)[:, -1:]))
        with torch.inference_mode():
            _, state = model.step(last, state)
    assert found.saved == pytest.approx(found.anew.sum() / found.kept.sum())


def test_weighing_is_that_of_a_plain_pass(translator: Translator) -> None:
    ids = translator.translate(SENTENCE, beam_size=1).ids
    found = weighing(translator, SENTENCE, ids)
    with torch.inference_mode():
        logits = translator.model(
            torch.tensor([translator.tokenizer.encode(SENTENCE)]), torch.tensor([[SOS_ID, *ids[:-1]]])
        )[0].numpy()
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    for place, written in enumerate(ids):
        assert found.chosen[place] == pytest.approx(shares[place, written], abs=1e-5)
        assert found.end[place] == pytest.approx(shares[place, EOS_ID], abs=1e-5)
        order = [number for number in np.argsort(-shares[place]) if number > 2 and number != written]
        assert found.rival[place] == pytest.approx(shares[place, order[0]], abs=1e-5)
        assert shares[place, found.rivals[place].id] == pytest.approx(shares[place, order[0]], abs=1e-6)
    assert all(found.best)


def test_what_was_not_the_most_probable_is_seen(translator: Translator) -> None:
    best = translator.steps(SENTENCE, (), count=2)[0].candidates
    found = weighing(translator, SENTENCE, [best[1].piece.id, EOS_ID])
    assert not found.best[0]
    assert found.rivals[0].id == best[0].piece.id


def test_scores_by_hand() -> None:
    found = scores_by_alpha([-6.0, -7.0], [1, 7], [0.0, 1.0, 2.0])
    np.testing.assert_allclose(found, [[-6.0, -6.0, -6.0], [-7.0, -3.5, -1.75]])
    assert scores_by_alpha([], [], [0.0]).shape == (0, 1)
    assert math.isclose(found[1, 1], -7.0 / ((5 + 7) / 6))
