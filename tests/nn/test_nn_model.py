"""Laws of the whole model that hold for any weights."""

import itertools

import pytest
import torch
from torch import nn

from transformer.config import PAD_ID, ModelConfig
from transformer.nn import Transformer, probe_names, register_hooks, watching

VARIANTS = [
    {},
    {"norm_first": True},
    {"activation": "gelu"},
    {"tie_embeddings": "target"},
    {"tie_embeddings": "none"},
    {"positions": "learned"},
    {"encoder_layers": 3, "decoder_layers": 1},
]


def build(seed=0, **overrides):
    torch.manual_seed(seed)
    values = {
        "vocab_size": 50, "d_model": 16, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "feed_forward": 32,
        "dropout": 0.2, "max_length": 32, **overrides,
    }  # fmt: skip
    model = Transformer(ModelConfig(**values)).eval()
    with torch.no_grad():  # biases and norms start at special values; laws must hold for any
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def ids(*rows):
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD_ID] * (width - len(row))] for row in rows])


SOURCE = ids([2, 10, 11, 12, 13, 3], [2, 20, 21, 3])
TARGET = ids([2, 30, 31, 32], [2, 33, 34, 35])


class Recorder:
    def __init__(self, replace=None):
        self.values, self.replace = {}, replace or {}

    def wants(self, name):
        return True

    def receive(self, name, value):
        self.values[name] = value.clone()
        return self.replace[name](value) if name in self.replace else None


@pytest.fixture(params=VARIANTS, ids=lambda v: "-".join(map(str, v.items())) or "paper")
def model(request):
    with torch.inference_mode():
        yield build(**request.param)


def test_no_attention_to_the_future(model):
    changed = TARGET.clone()
    changed[:, 2] = 40
    before, after = model(SOURCE, TARGET), model(SOURCE, changed)
    assert torch.equal(before[:, :2], after[:, :2])
    assert (before[:, 2:] - after[:, 2:]).abs().max() > 1e-3


def test_no_attention_to_padding(model):
    source_mask, target_mask = SOURCE != PAD_ID, torch.tensor([[True] * 4, [True, True, True, False]])
    changed_source, changed_target = SOURCE.clone(), TARGET.clone()
    changed_source[1, 4:], changed_target[1, 3] = 44, 45
    before = model(SOURCE, TARGET, source_mask, target_mask)
    after = model(changed_source, changed_target, source_mask, target_mask)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1, :3], after[1, :3])
    memory_before, memory_after = model.encode(SOURCE, source_mask), model.encode(changed_source, source_mask)
    assert torch.equal(memory_before[1, :4], memory_after[1, :4])


def test_more_padding_changes_nothing(model):
    wide_source = torch.cat([SOURCE, torch.full((2, 5), PAD_ID)], dim=1)
    wide_target = torch.cat([TARGET, torch.full((2, 3), PAD_ID)], dim=1)
    torch.testing.assert_close(model(wide_source, wide_target)[:, :4], model(SOURCE, TARGET), atol=1e-5, rtol=1e-5)
    alone = model(SOURCE[1:, :4], TARGET[1:])
    torch.testing.assert_close(model(SOURCE, TARGET)[1:], alone, atol=1e-5, rtol=1e-5)


def test_watched_equals_unwatched_and_patterns_are_distributions(model):
    register_hooks(model)
    recorder = Recorder()
    with watching(recorder):
        watched = model(SOURCE, TARGET)
    torch.testing.assert_close(watched, model(SOURCE, TARGET), atol=1e-5, rtol=1e-5)
    patterns = {name: value for name, value in recorder.values.items() if name.endswith(".pattern")}
    assert len(patterns) == model.config.encoder_layers + 2 * model.config.decoder_layers
    for name, pattern in patterns.items():
        torch.testing.assert_close(pattern.sum(-1), torch.ones(pattern.shape[:-1]), atol=1e-5, rtol=0)
        mask = recorder.values[name.replace("pattern", "mask")].expand_as(pattern)
        assert (pattern[~mask] == 0).all()


def test_training_mode_without_dropout_is_the_same_function():
    model = build(dropout=0.0)
    torch.testing.assert_close(model.train()(SOURCE, TARGET), model.eval()(SOURCE, TARGET), atol=1e-5, rtol=1e-5)


def test_incremental_equals_full(model):
    mask = SOURCE != PAD_ID
    memory = model.encode(SOURCE, mask)
    full = model.decode(TARGET, memory, mask)
    state = model.start(memory, mask)
    for t in range(TARGET.size(1)):
        assert (state.length, state.rows) == (t, 2)
        hidden, state = model.step(TARGET[:, t], state)
        torch.testing.assert_close(hidden, full[:, t], atol=1e-5, rtol=1e-5)


def test_steps_leave_the_old_state_usable_and_reorder_picks_rows(model):
    mask = SOURCE != PAD_ID
    start = model.start(model.encode(SOURCE, mask), mask)
    _, one = model.step(TARGET[:, 0], start)
    first, _ = model.step(TARGET[:, 1], one)
    model.step(torch.tensor([7, 8]), one)
    again, _ = model.step(TARGET[:, 1], one)
    assert torch.equal(first, again)
    swapped, _ = model.step(TARGET[[1, 1, 0], 1], one.reorder(torch.tensor([1, 1, 0])))
    torch.testing.assert_close(swapped, first[[1, 1, 0]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_gradient_reaches_every_parameter(variant):
    model = build(**variant).train()
    (model(SOURCE, TARGET) * torch.randn(2, 4, 50)).sum().backward()
    for name, parameter in model.named_parameters():
        if name.endswith("key.bias"):
            # A constant added to all scores of a row cancels in the softmax: this gradient is zero by arithmetic.
            assert parameter.grad.abs().max() < 1e-3
        else:
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 1e-6, name


def test_word_order_is_invisible_without_positions_and_visible_with_them():
    dog, bites, man = 10, 11, 12
    rows = torch.tensor([[dog, bites, man], [man, bites, dog]])
    with torch.inference_mode():
        blind = build(positions="none").encode(rows)
        torch.testing.assert_close(blind[0], blind[1][[2, 1, 0]], atol=1e-5, rtol=1e-5)
        seeing = build().encode(rows)
        assert (seeing[0] - seeing[1][[2, 1, 0]]).abs().max() > 0.1


def test_layer_normalisation_by_hand():
    normalised = nn.LayerNorm(3, eps=1e-5)(torch.tensor([1.0, -1.0, 3.0]))
    torch.testing.assert_close(normalised, torch.tensor([0.0, -1.2247, 1.2247]), atol=1e-4, rtol=0)
    assert build().encoder.get_submodule("0").self_attn_norm.eps == 1e-5


def test_post_norm_streams_are_normalised_and_pre_norm_streams_are_not():
    for norm_first in (False, True):
        model = build(norm_first=norm_first)
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, nn.LayerNorm):
                    module.weight.fill_(1.0)
                    module.bias.zero_()
        register_hooks(model)
        recorder = Recorder()
        with watching(recorder), torch.inference_mode():
            model(SOURCE, TARGET)
        stream = recorder.values["decoder.1.stream_after_cross_attn"]
        normalised = bool(
            (stream.mean(-1).abs() < 1e-4).all() and (stream.var(-1, unbiased=False) - 1).abs().max() < 0.01
        )
        assert normalised is not norm_first


def test_embeddings_are_scaled_and_positions_added():
    model = build()
    register_hooks(model)
    recorder = Recorder()
    with watching(recorder), torch.inference_mode():
        model(SOURCE, TARGET)
    embedding = recorder.values["source_input.embedding"]
    torch.testing.assert_close(embedding, model.source_input.lookup.weight[SOURCE] * 4.0)  # sqrt(16)
    torch.testing.assert_close(
        recorder.values["source_input.sum"], embedding + recorder.values["source_input.positions"]
    )


def test_an_intervention_replaces_a_pattern_for_that_pass_only():
    model = build()
    register_hooks(model)
    register_hooks(model)
    with torch.inference_mode():
        plain = model(SOURCE, TARGET)

        def uniform(pattern):
            return torch.full_like(pattern, 1 / pattern.size(-1))

        with watching(Recorder({"decoder.1.cross_attn.pattern": uniform})):
            changed = model(SOURCE, TARGET)
        assert (plain - changed).abs().max() > 1e-3
        assert torch.equal(model(SOURCE, TARGET), plain)


def test_tying():
    for tying, tables in (("all", 1), ("target", 2), ("none", 3)):
        model = build(tie_embeddings=tying)
        weights = {model.source_input.lookup.weight, model.target_input.lookup.weight, model.projection.weight}
        assert len({id(weight) for weight in weights}) == tables


def test_matrices_start_xavier_uniform_and_embeddings_normal():
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=1000, d_model=128, heads=4, feed_forward=512))
    layers = {"encoder": 0.87 * 6 ** (-5 / 16), "decoder": 72 ** (-1 / 4)}  # gains into the stream, 6 + 6 layers
    for stack, gain in layers.items():
        layer = model.get_submodule(f"{stack}.0")
        for weight, expected, fan in (
            (layer.self_attn.query.weight, 1.0, 256),
            (layer.self_attn.value.weight, gain, 256),
            (layer.feed_forward.inner.weight, gain, 640),
        ):
            bound = expected * (6 / fan) ** 0.5
            assert weight.detach().abs().max() <= bound
            assert abs(float(weight.detach().std()) - bound / 3**0.5) < 0.01 * bound
    assert abs(float(model.source_input.lookup.weight.detach().std()) - 128**-0.5) < 0.01 * 128**-0.5
    assert not model.encoder.get_submodule("0").self_attn.query.bias.detach().any()


@pytest.mark.parametrize("preset", ["tiny", "small", "base"])
@torch.inference_mode()
def test_a_new_encoder_tells_positions_apart(preset):
    """With a gain of 1 everywhere the mean cosine is 0.9 for "tiny", and training does not recover from it."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig.preset(preset, 1000)).eval()
    memory = nn.functional.normalize(model.encode(torch.arange(10, 24)[None])[0], dim=-1)
    cosines = memory @ memory.T
    assert float(cosines.sum() - 14) / (14 * 13) < 0.6


def hand_count(v, d, f, encoder, decoder):
    attention, feed_forward, norm = 4 * (d * d + d), d * f + f + f * d + d, 2 * d
    return v * d + encoder * (attention + feed_forward + 2 * norm) + decoder * (2 * attention + feed_forward + 3 * norm)


@pytest.mark.parametrize(
    ("preset", "vocabulary", "shape", "millions"),
    [
        ("tiny", 10_000, (128, 256, 4, 4), 2.6),
        ("small", 8_000, (256, 1024, 3, 3), 7.6),
        ("base", 37_000, (512, 2048, 6, 6), 63.1),
        ("big", 37_000, (1024, 4096, 6, 6), 214.2),
    ],
)
def test_presets_have_the_parameter_counts_of_hand_arithmetic(preset, vocabulary, shape, millions):
    with torch.device("meta"):
        model = Transformer(ModelConfig.preset(preset, vocabulary))
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == hand_count(vocabulary, *shape)
    assert round(count / 1e6, 1) == millions


def test_parameter_and_probe_names_are_frozen():
    """They are the names in every saved checkpoint and in every saved record; a rename breaks both."""
    model = build(encoder_layers=1, decoder_layers=1)
    norms = lambda *names: [f"{n}_norm.{p}" for n in names for p in ("weight", "bias")]  # noqa: E731
    attention = lambda name: [  # noqa: E731
        f"{name}.{part}.{p}" for part, p in itertools.product(("query", "key", "value", "output"), ("weight", "bias"))
    ]
    forward = [f"feed_forward.{part}.{p}" for part in ("inner", "outer") for p in ("weight", "bias")]
    encoder = attention("self_attn") + norms("self_attn") + forward + norms("feed_forward")
    decoder = (
        attention("self_attn") + norms("self_attn") + attention("cross_attn") + norms("cross_attn") + forward
        + norms("feed_forward")
    )  # fmt: skip
    expected = [
        "source_input.lookup.weight",
        *(f"encoder.0.{n}" for n in encoder),
        *(f"decoder.0.{n}" for n in decoder),
    ]
    assert [name for name, _ in model.named_parameters()] == expected
    views = ["query_heads", "key_heads", "value_heads", "scores", "mask", "pattern", "head_output"]
    probes = {f"{side}_input.{n}" for side in ("source", "target") for n in ("embedding", "positions", "sum")}
    for name in ("encoder.0.self_attn", "decoder.0.self_attn", "decoder.0.cross_attn"):
        probes |= {f"{name}.{view}" for view in views}
    for layer, streams in (
        ("encoder.0", ("in", "after_self_attn", "after_feed_forward")),
        ("decoder.0", ("in", "after_self_attn", "after_cross_attn", "after_feed_forward")),
    ):
        probes |= {f"{layer}.stream_{stream}" for stream in streams} | {f"{layer}.feed_forward.hidden"}
    assert set(probe_names(model)) == probes


@pytest.mark.parametrize("overrides", VARIANTS)
def test_training_gives_the_hidden_states_of_evaluation_at_every_real_position(overrides):
    model = build(**{**overrides, "dropout": 0.0})
    source, target = SOURCE, ids([2, 30, 31, 32], [2, 33])
    expected = model.hidden(source, target)
    found = model.train().training_hidden(source, target)
    real = target != PAD_ID
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)


def test_under_autocast_the_stream_is_bfloat16_and_near_the_float32_one():
    model = build(dropout=0.0).train()
    expected = model.training_hidden(SOURCE, TARGET)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.training_hidden(SOURCE, TARGET)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.1, rtol=0.05)
