"""The mean of several sets of weights (paper, Section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from transformer.errors import TrainingError, problem
from transformer.files import write_atomically
from transformer.training.writing import writing


def save_weights(model: nn.Module, path: Path, dtype: torch.dtype = torch.float32, **notes: object) -> None:
    """Write the parameters, tied ones once, and ``notes`` as the file's metadata.

    Raises:
        TrainingError: they cannot be written.
    """
    tensors = {name: parameter.detach().to("cpu", dtype).contiguous() for name, parameter in model.named_parameters()}
    metadata = {key: str(value) for key, value in notes.items()}
    with writing("weights of the run", path):
        write_atomically(path, safetensors.torch.save(tensors, metadata))


def load_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy tensors named as in ``save_weights`` into the model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[name])


def mean_of(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in some files, summed in float64.

    Raises:
        TrainingError: no files, or one that is missing or damaged.
    """
    if not paths:
        raise TrainingError(problem("weights to average", "must be at least one file", 0, "train for an epoch first"))
    total: dict[str, Tensor] = {}
    for path in paths:
        for name, tensor in _read(path).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def check_weights(path: Path) -> None:
    """See whether a file that ``save_weights`` wrote is still there.

    Raises:
        TrainingError: it is missing or damaged.
    """
    _read(path)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        fault = "damaged" if path.is_file() else "missing"
        raise TrainingError(
            problem(
                f"weights {path}",
                "must be a whole safetensors file",
                fault,
                "restore it; or, if it is of the last epoch, delete state.pt beside it, and --resume trains that epoch "
                "again; or else train anew in another --out",
            )
        ) from error
