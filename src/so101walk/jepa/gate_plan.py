"""What gate 1 does: which data, how much of it, which trainings; and how long that will take."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..errors import UsageError
from ..rig import ArmConfig, CameraConfig, Rig
from .recipe import LejepaRecipe, Recipe

__all__ = ["Arm", "GatePlan", "ablation", "chosen_plan", "estimate_s", "gate_rig"]

EPISODE_FRAMES = 200
GATE_FPS = 1
"""Dataset frames a second of the gate's own datasets.

A step of the walk takes about a second at the rig's speed limits, so that most frames are waypoints, each a draw of its
own: thirty times fewer look-alikes than at 30 fps. The arm's motion between them is simulated, not drawn."""

WALK_RHO = 0.6
"""Correlation of the gate's walk a step. A linear function of the state keeps rho of itself over a step and a quadratic
one rho^2; what tells them apart, rho (1 - rho), is near its largest here, and frames hardly resemble each other."""

STEP = {"frames_per_step": 1, "settle_frames": 0}
WALK = {**STEP, "rho": WALK_RHO}
CONTROL_HZ, PHYSICS_HZ = 20.0, 200.0
"""Setpoints a second on a path that takes a second: at a waypoint the arm is within 2 % of a joint's scale of it, on
average. Physics at the model's own step."""

MANY_FRAMES = 50_000
HELD_OUT, HELD_OUT_OF_MANY = "0.3", "0.15"
"""Share of the episodes that only the probe sees. Of many frames 0.15 are as many as the study held out, and more."""

RENDER_PX = 96
"""Rendered larger than the recipe's 64 px and area-averaged down: the renderer has no multisampling."""

COLLECT_FRAMES_S = 150.0
TRAIN_IMAGES_S = 1900.0
PROBE_FRAMES_S = 750.0
"""Throughput of one core: two-view frames walked, rendered and saved; two-view 64 px images trained on in bf16; frames
decoded, encoded and probed. As the stages themselves reported it on one core of a 2-core AMD EPYC with AVX-512."""


@dataclass(frozen=True)
class Arm:
    """One kind of data and what is trained on it.

    Attributes:
        name: ``walk``, ``goal``, or an ablation's name.
        policy: Policy to collect with.
        overrides: Values in place of the policy file's.
        frames: Frames of the dataset.
        seeds: How many trainings.
        cameras: Views to train and probe on; all if empty.
        scale: Factor on the envelope's scale: above 1 more of the walk is refused (truncation).
        dataset: An existing dataset instead of collecting.
        of: Arm whose dataset this one uses, "" for its own.
    """

    name: str
    policy: str = "ou"
    overrides: dict[str, Any] = field(default_factory=dict)
    frames: int = 100_000
    seeds: int = 3
    cameras: tuple[str, ...] = ()
    scale: float = 1.0
    dataset: Path | None = None
    of: str = ""

    @property
    def episodes(self) -> int:
        """Episodes of the dataset."""
        return max(8, round(self.frames / EPISODE_FRAMES))


@dataclass(frozen=True)
class GatePlan:
    """Everything that a gate depends on; kept in ``gate.json``, and the same on resuming.

    Attributes:
        recipe: Trained on every arm alike.
        arms: ``walk`` and ``goal`` first, then ablations.
        seed: Of datasets and trainings.
        val: Episodes that only the probe sees, its ``--val``.
        bound: Train the supervised bound too; ``lejepa`` recipes only.
        rank_trials: Ranking trials of each model.
        horizon: Frames from start to goal in ranking.
        quick: A small plan, made to be quick.
    """

    recipe: Recipe
    arms: tuple[Arm, ...]
    seed: int = 0
    val: str = HELD_OUT
    bound: bool = True
    rank_trials: int = 1000
    horizon: int = 4
    quick: bool = False

    def with_arms(self, arms: Sequence[Arm]) -> "GatePlan":
        """The plan with more arms; one whose name is there already is left out."""
        there = {a.name for a in self.arms}
        return replace(self, arms=(*self.arms, *(a for a in arms if a.name not in there)))

    def with_recipe(self, recipe: Recipe) -> "GatePlan":
        """The plan with another recipe."""
        return replace(self, recipe=recipe)

    def arm(self, name: str) -> Arm:
        """The arm of a name."""
        return next(a for a in self.arms if a.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``gate.json``."""
        return asdict(self)


def chosen_plan(
    recipe: Recipe,
    quick: bool = False,
    seeds: int | None = None,
    frames: int | None = None,
    seed: int = 0,
    walk: Path | None = None,
    goal: Path | None = None,
) -> GatePlan:
    """A gate's plan: walk and goal-directed data, and in a full gate of one's own data the non-Gaussian walk too.

    Args:
        recipe: Trained on every arm; a quick gate shortens it.
        quick: Small data, short training, no supervised bound.
        seeds: Trainings of each kind; 3, or 2 when quick.
        frames: Frames of each dataset that is collected; 100,000, or 12,000 when quick.
        seed: Of datasets and trainings.
        walk: A random-walk dataset to use.
        goal: A goal-directed dataset to use.
    """
    frames = frames or (12_000 if quick else 100_000)
    seeds = seeds or (2 if quick else 3)
    arms: tuple[Arm, ...] = (
        _of_size(Arm("walk", "ou", dict(WALK), frames, seeds, dataset=walk)),
        _of_size(Arm("goal", "goal", dict(STEP), frames, seeds, dataset=goal)),
    )
    if not quick:
        arms = arms if walk else (*arms, ablation("alpha", "1", frames))
        val = HELD_OUT_OF_MANY if frames >= MANY_FRAMES and not (walk or goal) else HELD_OUT
        return GatePlan(recipe, arms, seed=seed, val=val, bound=isinstance(recipe, LejepaRecipe))
    o, s = recipe.optimiser, recipe.stop
    steps_now = min(500, o.steps)
    optimiser = replace(o, steps=steps_now, warmup_steps=min(o.warmup_steps, steps_now // 10))
    short = replace(recipe, optimiser=optimiser, stop=replace(s, every=min(s.every, 125)))
    return GatePlan(short, arms, seed=seed, bound=False, rank_trials=300, quick=True)


def _of_size(arm: Arm) -> Arm:
    """The arm with the number of frames that its dataset has, if it is one that exists."""
    if arm.dataset is None:
        return arm
    from ..dataset.reader import Dataset

    return replace(arm, frames=Dataset.open(arm.dataset).frame_count)


def ablation(kind: str, value: str, frames: int) -> Arm:
    """An arm that differs from the walk in one thing.

    Args:
        kind: ``rho`` (of a step), ``alpha`` (shape of the generalized normal), ``frames`` (how many), ``view`` (train
            on one camera alone), or ``truncation`` (factor on the envelope's scale).
        value: As text.
        frames: Frames of the walk.

    Raises:
        UsageError: The value isn't one.
    """
    if kind == "view":
        return Arm(f"view-{value}", frames=frames, seeds=1, cameras=(value,), of="walk")
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"--ablate-{kind} is {value!r}; it must be a number") from None
    name = f"{kind}-{number:g}"
    if kind == "rho":
        return Arm(name, "ou", {**WALK, "rho": number}, frames, 1)
    if kind == "alpha":
        return Arm(name, "gennorm", {**WALK, "alpha": number}, frames, 1)
    if kind == "frames":
        return Arm(name, "ou", dict(WALK), int(number), 1)
    return Arm(name, "ou", dict(WALK), frames, 1, scale=number)


def gate_rig(envelope: str = "so101-tabletop") -> Rig:
    """The simulated rig that the gate collects with: two views, few frames a second."""
    views: tuple[Literal["front", "wrist"], ...] = ("front", "wrist")
    cameras: dict[str, CameraConfig] = {
        v: CameraConfig(width=RENDER_PX, height=RENDER_PX, fps=GATE_FPS, view=v) for v in views
    }
    arm = ArmConfig(control_hz=CONTROL_HZ, physics_hz=PHYSICS_HZ)
    return Rig(name="gate", fps=GATE_FPS, envelope=envelope, task="Gate 1.", arm=arm, cameras=cameras)


def estimate_s(plan: GatePlan, cores: int) -> dict[str, float]:
    """Seconds that each stage will take from nothing, by name, on so many cores like ours."""
    per_step = 2 if isinstance(plan.recipe, LejepaRecipe) else plan.recipe.windows.history + 1
    optimiser = plan.recipe.optimiser
    area = (plan.recipe.frames.size_px / 64) ** 2
    one = optimiser.steps * optimiser.batch * per_step * area / TRAIN_IMAGES_S
    trainings = sum(a.seeds for a in plan.arms) + (2 if plan.bound else 0)
    own = sum(a.frames for a in plan.arms if a.dataset is None and not a.of)
    probed = sum(a.frames * a.seeds for a in plan.arms) + sum(
        plan.arm(n).frames * plan.arm(m).seeds for n, m in (("walk", "goal"), ("goal", "walk"))
    )
    return {
        "collect": own / COLLECT_FRAMES_S / cores,
        "train": -(-trainings // cores) * one,
        "probe and rank": probed / PROBE_FRAMES_S / cores,
    }
