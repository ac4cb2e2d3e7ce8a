"""With the real stable-worldmodel: it reads our data, its own LeWM takes training steps, and the probe reads that."""

import json

import numpy as np
import pytest
import torch

from so101walk.dataset.export import export_swm_hdf5
from so101walk.dataset.reader import Dataset
from so101walk.errors import UsageError
from so101walk.probe.encoders import EncoderOptions, load_encoder
from so101walk.probe.run import ProbeOptions, probe

SIZE, WIDTH, STEPS, SKIP = 28, 24, 4, 2

CONFIG = {
    "_target_": "stable_worldmodel.wm.lewm.LeWM",
    "encoder": {
        "_target_": "transformers.ViTModel",
        "config": {
            "_target_": "transformers.ViTConfig",
            "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48,
            "image_size": SIZE, "patch_size": 14,
        },
        "add_pooling_layer": False,
    },
    "predictor": {
        "_target_": "stable_worldmodel.wm.lewm.module.Predictor",
        "num_frames": 3, "input_dim": WIDTH, "hidden_dim": WIDTH, "output_dim": WIDTH,
        "depth": 1, "heads": 2, "dim_head": 8, "mlp_dim": 32,
    },
    "action_encoder": {
        "_target_": "stable_worldmodel.wm.lewm.module.Embedder", "input_dim": 6 * SKIP, "emb_dim": WIDTH,
    },
}  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path):
    """A LeWM of that package after one training step on our dataset through its own HDF5 reader, saved its own way."""
    from hydra.utils import instantiate

    torch.manual_seed(0)
    model = instantiate(CONFIG)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    torch.save(model.state_dict(), folder / "weights.pt")
    return folder


def test_its_reader_loads_the_export_and_its_model_takes_a_step(walk_dataset, tmp_path, checkpoint):
    from stable_worldmodel.data.formats.hdf5 import HDF5Dataset
    from stable_worldmodel.wm.utils import load_pretrained

    source = Dataset.open(walk_dataset)
    export_swm_hdf5(source, tmp_path / "walk.h5", size_px=SIZE)
    data = HDF5Dataset(
        path=tmp_path / "walk.h5", frameskip=SKIP, num_steps=STEPS, keys_to_load=["pixels", "action", "proprio"]
    )
    batch = [data[i] for i in range(0, 64, 4)]
    pixels = torch.stack([torch.as_tensor(b["pixels"]) for b in batch]).float() / 255.0
    action = torch.stack([torch.as_tensor(b["action"]) for b in batch]).float()
    assert pixels.shape == (16, STEPS, 3, SIZE, SIZE)
    assert action.shape == (16, STEPS, 6 * SKIP)
    assert np.allclose(action[0, 0, :6], source.columns(["action"], 0)["action"][0])

    model = load_pretrained(str(checkpoint), cache_dir=str(tmp_path)).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        info = model.encode({"pixels": pixels, "action": action / 10.0})
        predicted = model.predict(info["emb"][:, :-1], info["act_emb"][:, :-1])
        loss = (predicted - info["emb"][:, 1:]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


def test_its_lerobot_reader_takes_a_collected_dataset_as_it_is(tmp_path, checkpoint):
    import stable_worldmodel as swm
    from stable_worldmodel.wm.utils import load_pretrained

    from so101walk.cli.main import main

    root = tmp_path / "walk"
    with pytest.raises(SystemExit) as e:
        main(["collect", "--episodes", "2", "--episode-s", "1", "--seed", "3", "--out", str(root), "--json"])
    assert e.value.code == 0
    data = swm.data.load_dataset(
        "lerobot://local/walk", root=str(root), primary_camera_key="observation.images.front", num_steps=STEPS,
        frameskip=SKIP, keys_to_load=["pixels", "action", "proprio"], video_backend="pyav",
    )  # fmt: skip
    batch = [data[i] for i in (0, 5, 11)]
    pixels = torch.nn.functional.interpolate(torch.cat([b["pixels"] for b in batch]).float(), SIZE)
    action = torch.stack([torch.as_tensor(b["action"]) for b in batch]).float()
    assert action.shape == (3, STEPS, 6 * SKIP)
    model = load_pretrained(str(checkpoint), cache_dir=str(tmp_path)).train()
    info = model.encode({"pixels": pixels.view(3, STEPS, 3, SIZE, SIZE), "action": action / 100.0})
    loss = (model.predict(info["emb"][:, :-1], info["act_emb"][:, :-1]) - info["emb"][:, 1:]).square().mean()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.encoder.parameters() if p.grad is not None)


def test_its_checkpoint_is_probed(walk_dataset, checkpoint):
    result = probe(
        walk_dataset, f"lewm:{checkpoint}", ProbeOptions(val="3", device="cpu", guards=False, references=False)
    )
    assert result.latents.width == WIDTH
    assert np.isfinite(result.linear.mean.value)
    encoder = load_encoder(f"lewm:{checkpoint}", EncoderOptions("cpu"))
    assert encoder.inputs(np.zeros((2, 50, 60, 3), np.uint8)).shape == (2, 3, SIZE, SIZE)


def test_what_is_no_checkpoint_is_told(tmp_path, checkpoint):
    with pytest.raises(UsageError, match="does not exist"):
        load_encoder(f"lewm:{tmp_path / 'none'}", EncoderOptions())
    with pytest.raises(UsageError, match=r"no config\.json"):
        load_encoder(f"lewm:{tmp_path}", EncoderOptions())
    (checkpoint / "config.json").write_text('{"_target_": "stable_worldmodel.nowhere"}')
    with pytest.raises(UsageError, match="can't be loaded"):
        load_encoder(f"lewm:{checkpoint}", EncoderOptions())
