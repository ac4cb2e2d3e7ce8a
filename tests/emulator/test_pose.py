"""The shared pose is never read torn."""

import multiprocessing as mp

import numpy as np

from so101walk.emulator.pose import SharedPose


def scribble(pose: SharedPose, n: int) -> None:
    for i in range(n):
        pose.write(i, np.full(6, float(i)))


def test_reads_what_was_written():
    pose = SharedPose()
    pose.write(123, [1, 2, 3, 4, 5, 6])
    got = pose.read()
    assert got.t_ns == 123
    np.testing.assert_array_equal(got.rad, [1, 2, 3, 4, 5, 6])
    pose.write(124, np.zeros(6))
    assert got.rad[0] == 1


def test_another_process_sees_whole_poses_only():
    context = mp.get_context("spawn")
    pose = SharedPose(context)
    writer = context.Process(target=scribble, args=(pose, 30_000))
    writer.start()
    seen = 0
    while writer.is_alive():
        got = pose.read()
        assert np.all(got.rad == got.t_ns)
        seen = max(seen, got.t_ns)
    writer.join()
    assert seen > 0
    assert pose.read().t_ns == 29_999
