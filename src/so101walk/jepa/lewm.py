"""LeWM: an action-conditioned world model in latent space, trained end to end with next-latent error + SIGReg.

Encoder and projector give a latent of each frame; a causal transformer, conditioned on the actions between the frames
by AdaLN-zero, predicts the next latent from up to ``history`` of them (LeWM, arXiv 2603.19312; figures in science.md).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from .model import Encoder
from .recipe import LewmRecipe

__all__ = ["LeWM", "Predictor", "rollout"]

ACTION_WIDTH = 6


class LeWM(nn.Module):
    """Encoder with projector, and predictor.

    Args:
        recipe: Sizes.
        cameras: Number of views.
    """

    action_mean: Tensor
    action_scale: Tensor

    def __init__(self, recipe: LewmRecipe, cameras: int) -> None:
        super().__init__()
        width = recipe.encoder.latent
        self.encoder = Encoder(recipe.encoder, recipe.frames, cameras)
        self.projector = _mlp(width, recipe.projector, width)
        self.predictor = Predictor(recipe, width, ACTION_WIDTH * recipe.windows.stride)
        self.predicted = _mlp(width, recipe.projector, width)
        # What the actions of the training episodes are divided by; set before training and kept with the weights.
        self.register_buffer("action_mean", torch.zeros(ACTION_WIDTH * recipe.windows.stride))
        self.register_buffer("action_scale", torch.ones(ACTION_WIDTH * recipe.windows.stride))

    def forward(self, images: Tensor) -> Tensor:
        """Latents (n, d) of images (n, cameras, size, size, 3)."""
        return self.projector(self.encoder(images)).float()

    def predict(self, latents: Tensor, actions: Tensor) -> Tensor:
        """The latent after each one, given it and those before it.

        Args:
            latents: Shape (n, t, d), t up to the recipe's history.
            actions: From each latent's frame to the next one's, flattened, in LeRobot units. Shape (n, t, 6 * stride).

        Returns:
            Shape (n, t, d): entry i predicts latent i + 1.
        """
        scaled = (actions - self.action_mean) / self.action_scale
        hidden = self.predictor(latents, scaled)
        n, t, d = hidden.shape
        return self.predicted(hidden.reshape(n * t, d)).view(n, t, d).float()


class Predictor(nn.Module):
    """Causal transformer over latents whose every layer is modulated by the actions (AdaLN-zero, arXiv 2212.09748)."""

    def __init__(self, recipe: LewmRecipe, width: int, action_width: int) -> None:
        super().__init__()
        self.position = nn.Parameter(0.02 * torch.randn(recipe.windows.history, width))
        self.action = nn.Sequential(nn.Linear(action_width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        p = recipe.predictor
        self.layers = nn.ModuleList(_Layer(width, p.heads, p.head_width, p.mlp, p.dropout) for _ in range(p.layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Shapes (n, t, d) and (n, t, a) to (n, t, d)."""
        x = latents + self.position[: latents.shape[1]]
        condition = self.action(actions)
        for layer in self.layers:
            x = layer(x, condition)
        return self.norm(x)


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, head_width: int, mlp: int, dropout: float) -> None:
        super().__init__()
        inner = heads * head_width
        self.heads, self.dropout = heads, dropout
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * inner, bias=False)
        self.out = nn.Linear(inner, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, mlp), nn.GELU(), nn.Dropout(dropout), nn.Linear(mlp, width), nn.Dropout(dropout)
        )
        self.modulation = nn.Sequential(nn.SiLU(), _zeroed(nn.Linear(width, 6 * width)))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.modulation(condition).chunk(6, dim=-1)
        x = x + gate_a * self._attend(self.norms[0](x) * (1 + scale_a) + shift_a)
        return x + gate_m * self.mlp(self.norms[1](x) * (1 + scale_m) + shift_m)

    def _attend(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        seen = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0
        )
        return self.out(seen.transpose(1, 2).reshape(n, t, -1))


def _zeroed(layer: nn.Linear) -> nn.Linear:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _mlp(width_in: int, hidden: int, width_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Linear(hidden, width_out))


def rollout(model: LeWM, latents: Tensor, actions: Tensor, history: int) -> Tensor:
    """The latent that the model expects after a sequence of strides, each prediction fed back.

    Args:
        model: In eval mode.
        latents: Known ones up to the start, the start last. Shape (n, t, d), 1 <= t.
        actions: From each known latent's frame to the next, and on from the start: (n, t - 1 + steps, 6 * stride).
        history: How many latents the predictor looks back on at most.

    Returns:
        The latent after the last action, shape (n, d).
    """
    for end in range(latents.shape[1], actions.shape[1] + 1):
        begin = max(0, end - history)
        following = model.predict(latents[:, begin:end], actions[:, begin:end])[:, -1:]
        latents = torch.cat([latents, following], dim=1)
    if not math.isfinite(float(latents[:, -1].sum())):
        raise FloatingPointError("the rollout of the model left the finite numbers")
    return latents[:, -1]
