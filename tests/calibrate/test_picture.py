import numpy as np

from so101walk.calibrate.judge import judge
from so101walk.calibrate.picture import draw_envelope
from so101walk.envelope import load_envelope


def test_the_picture_is_a_png_with_something_on_it(tmp_path):
    import matplotlib.image

    envelope = load_envelope("so101-tabletop")
    path = tmp_path / "envelope.png"
    draw_envelope(envelope, judge(envelope, 2000, np.random.default_rng(0)), path, np.random.default_rng(1))
    image = matplotlib.image.imread(path)
    assert image.shape[0] > 800
    assert image.shape[1] > 1200
    quarters = [image[:450, :700], image[:450, 700:], image[450:, :700], image[450:, 700:]]
    assert all((quarter[..., :3].min(axis=2) < 0.9).mean() > 0.02 for quarter in quarters)
