"""A training run's folder: what was trained on what, its weights, and where to go on from.

``run.json`` tells the recipe, the dataset and its digest, which episodes were trained on, looked at and held out, the
seed, versions and every look; ``weights.pt`` is the module of the best look; ``checkpoint.pt`` is what ``--resume``
goes on from.
"""

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..dataset.durable import json_bytes, read_json, write_bytes
from ..errors import DatasetError, UsageError
from .fit import State
from .lewm import LeWM
from .model import Encoder
from .recipe import Recipe, parse_recipe

__all__ = ["Run", "build_module", "load_module", "load_run", "load_state", "save_state"]

RUN, WEIGHTS, CHECKPOINT = "run.json", "weights.pt", "checkpoint.pt"


@dataclass(frozen=True)
class Run:
    """What ``run.json`` holds.

    Attributes:
        root: The folder.
        recipe: What was asked for.
        dataset: Its folder when the run was made.
        digest: Of its content.
        cameras: Column names of the views, in the order that the network takes them.
        train: Episodes trained on.
        validation: Episodes looked at for early stopping.
        held_out: Episodes that training never touched: the probe's.
        seed: Of everything drawn.
        history: Every look, see :class:`so101walk.jepa.fit.Look`.
        best_step: The look whose weights were kept.
        done: Training came to its end.
        facts: Versions, device, threads, seconds.
    """

    root: Path
    recipe: Recipe
    dataset: str
    digest: str
    cameras: tuple[str, ...]
    train: tuple[int, ...]
    validation: tuple[int, ...]
    held_out: tuple[int, ...]
    seed: int
    history: tuple[dict[str, Any], ...] = ()
    best_step: int = 0
    done: bool = False
    facts: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``run.json``."""
        return {
            "kind": self.recipe.kind,
            "recipe": asdict(self.recipe),
            "dataset": self.dataset,
            "digest": self.digest,
            "cameras": list(self.cameras),
            "episodes": {"train": self.train, "validation": self.validation, "held_out": self.held_out},
            "seed": self.seed,
            "done": self.done,
            "best_step": self.best_step,
            "history": list(self.history),
            "facts": self.facts or {},
        }

    def save(self) -> None:
        """Write ``run.json``."""
        write_bytes(self.root / RUN, json_bytes(self.to_dict()))

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed."""
        told = self.to_dict()
        return {key: told[key] for key in ("seed", "recipe", "cameras", "digest", "episodes")}


def load_run(root: str | Path) -> Run:
    """The run in a folder.

    Raises:
        UsageError: There is none.
        DatasetError: Its ``run.json`` is torn.
    """
    root = Path(root)
    if not (root / RUN).is_file():
        raise UsageError(f"{root} is not a training run: it has no {RUN}; give a folder that `so101walk train` wrote")
    told = read_json(root / RUN)
    try:
        episodes = told["episodes"]
        return Run(
            root=root,
            recipe=parse_recipe(told["recipe"], f"{root / RUN}: recipe"),
            dataset=told["dataset"],
            digest=told["digest"],
            cameras=tuple(told["cameras"]),
            train=tuple(episodes["train"]),
            validation=tuple(episodes["validation"]),
            held_out=tuple(episodes["held_out"]),
            seed=told["seed"],
            history=tuple(told["history"]),
            best_step=told["best_step"],
            done=told["done"],
            facts=told["facts"],
        )
    except (KeyError, TypeError) as e:
        raise DatasetError(f"{root / RUN} lacks {e}; the run was made by another version, train it again") from e


def build_module(recipe: Recipe, cameras: int) -> nn.Module:
    """The untrained module of a recipe; its weights come from torch's global generator."""
    if recipe.kind == "lewm":
        return LeWM(recipe, cameras)
    return Encoder(recipe.encoder, recipe.frames, cameras)


def load_module(run: Run) -> nn.Module:
    """The trained module of a run, on the CPU in eval mode.

    Raises:
        UsageError: The run has no weights yet.
        DatasetError: They are torn, or don't fit the recipe.
    """
    path = run.root / WEIGHTS
    if not path.is_file():
        raise UsageError(
            f"{run.root} has no weights yet; go on with `so101walk train {run.dataset} --out {run.root} --resume`"
        )
    module = build_module(run.recipe, len(run.cameras))
    try:
        module.load_state_dict(_load(path))
    except (RuntimeError, KeyError) as e:
        raise DatasetError(f"{path} doesn't fit its recipe ({str(e).splitlines()[0]}); train the run again") from e
    return module.eval()


def save_weights(root: Path, weights: dict[str, Tensor]) -> None:
    """Write ``weights.pt``, whole or not at all."""
    write_bytes(root / WEIGHTS, _bytes(weights))


def save_state(root: Path, state: State) -> None:
    """Write ``checkpoint.pt`` and the best look's weights, each whole or not at all."""
    write_bytes(root / CHECKPOINT, _bytes(vars(state)))
    save_weights(root, state.best)


def load_state(root: Path) -> State | None:
    """Where a run left off, None if it never saved.

    Raises:
        DatasetError: The checkpoint is torn.
    """
    path = root / CHECKPOINT
    return State(**_load(path)) if path.is_file() else None


def _bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _load(path: Path) -> Any:
    import pickle

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as e:
        raise DatasetError(f"{path} can't be read, torn or truncated ({str(e).splitlines()[0][:80]})") from e
