"""What the probe costs: frames encoded a second against a stock loader, the ridge, and a whole probe from cold.

    python benchmarks/probe.py datasets/demo

prints a line a figure. Run it on a machine that does nothing else.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS, WIDTH = 100_000, 768


def encoding(path: Path, spec: str, stride: int) -> dict[str, float]:
    """Frames (all views of one instant) a second, decoded and encoded, and ms of CPU for each.

    Ours, and a stock ``LeRobotDataset`` in a ``DataLoader`` (the better of no worker and two) that hands the same
    images to the same encoder.
    """
    import numpy as np
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from torch.utils.data import DataLoader, Subset

    from so101walk.dataset.reader import Dataset
    from so101walk.probe.encoders import EncoderOptions, load_encoder
    from so101walk.probe.latents import dataset_digest, extract
    from so101walk.probe.samples import Samples

    dataset = Dataset.open(path)
    samples, cameras = Samples.of(dataset, stride), dataset.cameras
    encoder = load_encoder(spec, EncoderOptions("cpu", cameras))
    encoder.encode([dataset.decode_at(c, dataset.episodes[0].index, range(8)) for c in cameras])  # warm
    with tempfile.TemporaryDirectory() as cache:
        start, cpu = time.perf_counter(), time.process_time()
        ours = extract(dataset, dataset_digest(dataset, cameras), samples, cameras, [encoder], 64, cache=Path(cache))
        figures = {
            "ours": len(samples.rows) / (time.perf_counter() - start),
            "ours_cpu_ms": 1e3 * (time.process_time() - cpu) / len(samples.rows),
        }
    stock = Subset(LeRobotDataset(f"local/{path.name}", root=path, video_backend="pyav"), samples.rows.tolist())
    for workers in (0, 2):
        latents = []
        start, cpu = time.perf_counter(), time.process_time()
        for batch in DataLoader(stock, batch_size=64, num_workers=workers):
            views = [
                batch[c].mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy() for c in cameras
            ]
            latents.append(encoder.encode(views))
        figures[f"stock_{workers}_workers"] = len(samples.rows) / (time.perf_counter() - start)
        if workers == 0:
            figures["stock_cpu_ms"] = 1e3 * (time.process_time() - cpu) / len(samples.rows)
        np.testing.assert_allclose(np.concatenate(latents), ours[0].array, rtol=1e-3, atol=1e-3)
    figures["ratio"] = figures["ours"] / max(v for k, v in figures.items() if k.endswith("workers"))
    return figures


def ridge() -> dict[str, float]:
    """Seconds and peak memory [GB] to choose the strengths and fit six joints on 100,000 x 768 latents in a file."""
    import numpy as np

    from so101walk.probe.ridge import fit, folds_of

    with tempfile.TemporaryDirectory() as folder:
        shape = (ROWS, WIDTH)
        latents = np.lib.format.open_memmap(Path(folder) / "latents.npy", mode="w+", dtype=np.float32, shape=shape)
        rng = np.random.default_rng(0)
        q = rng.standard_normal((ROWS, 6))
        mix = rng.standard_normal((6, WIDTH))
        for start in range(0, ROWS, 5000):
            part = slice(start, start + 5000)
            latents[part] = q[part] @ mix + rng.standard_normal((5000, WIDTH))
        latents.flush()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        episode, frame = np.arange(ROWS) // 400, np.arange(ROWS) % 400
        start_s, cpu = time.perf_counter(), time.process_time()
        fit(latents, q, np.arange(ROWS), folds_of(episode, frame))
        seconds = time.perf_counter() - start_s
        cpu = time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": seconds,
        "peak_gb": peak / 1e6,
        "peak_gb_before": before / 1e6,
        "latents_gb": ROWS * WIDTH * 4 / 1e9,
    }


def whole(path: Path, spec: str) -> dict[str, float]:
    """Seconds of ``so101walk probe`` from cold, and a second time."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        program = "from so101walk.cli.main import main; main()"
        command = [
            sys.executable,
            "-c",
            program,
            "probe",
            str(path),
            "--encoder",
            spec,
            "--out",
            f"{folder}/run",
            "--json",
        ]
        for name in ("cold", "again"):
            start = time.perf_counter()
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            figures[name] = time.perf_counter() - start
            figures |= {f"{name}_{stage}": s for stage, s in json.loads(done.stdout)["seconds"].items()}
    return figures


def main() -> None:
    """Run what was asked for, each in a process of its own so that peaks of memory don't mix."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--only", choices=["encoding", "ridge", "whole"])
    parser.add_argument(
        "--spec", action="append", help="encoders to time; random-cnn and efficientnet-lite0 unless told"
    )
    arguments = parser.parse_args()
    specs = arguments.spec or ["random-cnn", "efficientnet-lite0"]
    if arguments.only is None:
        for only in ("encoding", "ridge", "whole"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--only", only], check=True)
        return
    if arguments.only == "ridge":
        _show("ridge 100k x 768", ridge())
        return
    for spec in specs:
        if arguments.only == "encoding":
            _show(f"frames/s, {spec}", encoding(arguments.dataset, spec, arguments.stride))
        else:
            _show(f"probe seconds, {spec}", whole(arguments.dataset, spec))


def _show(name: str, figures: dict[str, float]) -> None:
    print(f"{name}: {', '.join(f'{k} {v:.3g}' for k, v in figures.items())}", flush=True)


if __name__ == "__main__":
    main()
