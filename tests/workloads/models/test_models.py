"""Exact sizes: parameters and FLOPs of the published models, and what a rank of a layout holds."""

import pytest
import torch

from lockstep.workloads.measure.flops import FORMULAS, per_token
from lockstep.workloads.models.configs import CONFIGS, TINY, ConfigError, GptConfig, Style, resized
from lockstep.workloads.models.fit import check, memory_plan, require, stage_parameters
from lockstep.workloads.models.gpt import Gpt
from lockstep.workloads.parallel.pipeline import build
from lockstep.workloads.parallel.tensor import TensorParallel
from lockstep.workloads.spec import Layout, Training

PUBLISHED = {
    "gpt3-125m": (0.125, 0.85, 0.97, 0.98),
    "gpt3-350m": (0.356, 2.42, 2.73, 2.74),
    "gpt3-1.3b": (1.316, 8.47, 9.08, 9.10),
    "gpt3-6.7b": (6.658, 41.50, 43.12, 43.17),
    "gpt3-13b": (12.853, 79.56, 82.09, 82.15),
    "gpt3-175b": (174.604, 1061.88, 1076.47, 1076.62),
    "llama2-7b": (6.738, 42.86, 46.09, 46.09),
    "llama2-70b": (68.977, 428.39, 444.50, 444.50),
    "llama3-8b": (8.030, 51.47, 57.91, 57.91),
    "llama3-70b": (70.554, 449.22, 481.44, 481.44),
    "llama3.1-405b": (405.853, 2523.96, 2625.45, 2625.45),
}
"""Parameters in 1e9, then GFLOP a token by each formula."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_flops_are_the_published_ones(name: str) -> None:
    config = CONFIGS[name]
    parameters, *flops = PUBLISHED[name]

    assert parameters == pytest.approx(config.parameters / 1e9, abs=0.0005)
    assert flops == pytest.approx([f(config) / 1e9 for f in FORMULAS.values()], abs=0.006)


def megatron_closed_form(config: GptConfig) -> float:
    """Megatron-LM's expression for one token, as it stands in training.py, term by term."""
    projection = config.heads * config.head_size / config.hidden
    gated = 1.5 if config.style is Style.LLAMA else 1.0
    return (
        12 * config.layers * config.hidden**2
        * (
            (1 + config.kv_heads / config.heads + config.sequence / config.hidden / 2) * projection
            + config.ffn / config.hidden * gated
            + config.vocabulary / (2 * config.layers * config.hidden)
        )
    )  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("config", CONFIGS.values(), ids=lambda config: config.name)
def test_flops_equal_megatrons_closed_form(config: GptConfig) -> None:
    assert megatron_closed_form(config) == pytest.approx(per_token(config), rel=1e-9)


@pytest.mark.sweep
@pytest.mark.parametrize("config", CONFIGS.values(), ids=lambda config: config.name)
def test_the_model_has_as_many_parameters_as_its_config_says(config: GptConfig) -> None:
    with torch.device("meta"):
        model = Gpt(config)

    assert config.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["tiny", "demo", "llama2-70b", "llama3-8b", "llama3.1-405b"])
@pytest.mark.parametrize(("pp", "tp", "chunks"), [(1, 2, 1), (2, 1, 1), (2, 2, 1), (1, 4, 1)])
def test_every_stage_holds_what_the_plan_says(name: str, pp: int, tp: int, chunks: int) -> None:
    config = CONFIGS[name]
    if config.kv_heads % tp:
        pytest.skip(f"{name} has {config.kv_heads} heads of keys: not divisible by {tp}")
    layout = Layout(1, pp * tp, 1, tp, pp)
    with torch.device("meta"):
        held = [
            sum(
                parameter.numel()
                for chunk in build(config, TensorParallel(tp), pp, stage, chunks)
                for parameter in chunk.parameters()
            )
            for stage in range(pp)
        ]

    assert held == [stage_parameters(config, layout, chunks, stage) for stage in range(pp)]


@pytest.mark.parametrize(
    ("layout", "training", "sentence"),
    [
        (Layout(1, 3, 1, 3), Training(), "heads of keys and values 4 cannot be split over tp 3"),
        (Layout(1, 8, 1, 8), Training(), "heads of keys and values 4 cannot be split over tp 8"),
        (Layout(1, 2, 1, 2), Training(vocabulary=63), "--vocabulary 256"),
        (
            Layout(1, 2, 1, 2),
            Training(sequence=63, sequence_parallel=True),
            "sequence 63 cannot be split over tp 2",
        ),
        (Layout(1, 4, 1, 1, 4), Training(micro_batches=4), "more than the 2 layers of tiny"),
        (Layout(1, 2, 1, 1, 2), Training(micro_batches=1), "give --micro-batches 2 or more"),
        (Layout(1, 1, 1), Training(virtual_stages=2), "--virtual-stages needs a pipeline"),
    ],
)
def test_what_does_not_divide_is_refused_in_a_sentence(
    layout: Layout, training: Training, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check(training.config, layout, training)


def test_a_run_that_cannot_fit_is_refused_with_the_numbers() -> None:
    training = Training(model="llama2-70b", micro_batch=1, micro_batches=4)

    with pytest.raises(ConfigError, match=r"does not fit: a rank has 80.00 GiB and needs"):
        require(Layout(1, 8, 1, 8), training, available=80 * 2**30)
    require(Layout(8, 8, 1, 8, 8), replace_micro(training), available=80 * 2**30)


def replace_micro(training: Training) -> Training:
    return Training(
        model=training.model, micro_batch=1, micro_batches=8, sequence_parallel=True,
        recompute=True,
    )  # fmt: skip


def test_recomputation_and_sequence_parallel_need_less_memory() -> None:
    config, layout = CONFIGS["llama2-7b"], Layout(1, 8, 1, 8)
    plain, sequence, recomputed = (
        memory_plan(config, layout, training).activations
        for training in (
            Training(), Training(sequence_parallel=True), Training(recompute=True)
        )
    )  # fmt: skip

    assert recomputed < sequence < plain


def test_an_interleaved_pipeline_keeps_more_micro_batches() -> None:
    """1 + (pp - 1) / (pp x virtual stages), besides the logits."""
    config, layout = CONFIGS["llama2-7b"], Layout(1, 4, 1, pp=4)
    plain, interleaved = (
        memory_plan(config, layout, Training(micro_batches=8, virtual_stages=stages)).activations
        for stages in (1, 2)
    )
    logits = 2 * 4 * config.sequence * 2 * config.vocabulary

    assert 1 + 3 / 8 == pytest.approx((interleaved - logits) / (plain - logits))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 5}, "hidden 64 is not divisible by 5 heads"),
        ({"kv_heads": 3}, "heads 4 are not divisible by kv_heads 3"),
        ({"layers": 0}, "layers is 0; it must be at least 1"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(change: dict[str, int], sentence: str) -> None:
    from dataclasses import replace

    with pytest.raises(ConfigError, match=sentence):
        replace(TINY, **change)


def test_a_model_can_have_another_vocabulary_and_sequence() -> None:
    config = resized(TINY, vocabulary=128, sequence=32)

    assert (128, 32, TINY.hidden) == (config.vocabulary, config.sequence, config.hidden)
