"""The image systems of Xu et al. (2022), their floors, and the LSTM baseline."""

import os
from pathlib import Path

import numpy as np
import pytest

from muhat.gram import Perceptron
from papers.xu2022 import figure5_6, images
from papers.xu2022.lstm import WINDOW, lstm

needs_sprites = pytest.mark.skipif(
    not (Path(os.environ.get("MUHAT_DATA", "nowhere")) / "dsprites_heart_positions.npz").is_file(),
    reason="needs dsprites_heart_positions.npz in the folder MUHAT_DATA",
)


def squared(a, b):
    return ((a - b) ** 2).sum(axis=1).mean()


@needs_sprites
def test_hearts_stand_where_they_are_seen():
    video = images.sprites(400, 0)
    assert video.X.shape == (400, 4096)
    grid = np.linspace(-1.5, 1.5, 32)
    assert np.abs(video.seen[:, :, None] - grid).min(axis=2).max() < 1e-12
    inside = np.abs(video.Z).max(axis=1) < 1.4
    # Position noise 0.05, and rounding to a grid of step 3/31.
    sd = np.hypot(0.05, 3 / 31 / np.sqrt(12))
    np.testing.assert_allclose((video.seen - video.Z)[inside].std(axis=0), sd, rtol=0.12)
    # The first coordinate moves the heart along columns, the second along rows.
    bright = video.X.reshape(400, 64, 64) > 0.5
    mass = bright.sum(axis=(1, 2))
    across = (bright * np.arange(64)).sum(axis=(1, 2)) / mass
    down = (bright * np.arange(64)[:, None]).sum(axis=(1, 2)) / mass
    assert np.corrcoef(across, video.seen[:, 0])[0, 1] > 0.999
    assert np.corrcoef(down, video.seen[:, 1])[0, 1] > 0.999
    dark = video.X[:, :5]  # no heart comes here
    assert dark.std() == pytest.approx(0.1, rel=0.1)
    np.testing.assert_array_equal(video.X, images.sprites(400, 0).X)
    assert not np.array_equal(video.Z, images.sprites(400, 1).Z)


def test_the_camera_turns():
    video = images.turning(300, 0)
    assert video.X.shape == (300, 36 * 48 * 3)
    np.testing.assert_allclose((video.Z**2).sum(axis=1), 1)
    angle = np.unwrap(np.arctan2(video.Z[:, 1], video.Z[:, 0]))
    turns = np.diff(angle)
    assert turns.mean() == pytest.approx(0.4, abs=0.05)
    assert turns.std() == pytest.approx(0.2, rel=0.15)
    # A camera off by N(0, 0.2²): E‖seen − z‖² = 2 − 2 exp(−0.02).
    assert squared(video.seen, video.Z) == pytest.approx(2 - 2 * np.exp(-0.02), rel=0.25)


def test_knowing_the_model_helps():
    video = images.turning(2000, 3)
    floor = images.turning_floor(video.seen, np.random.default_rng(0))
    # The stationary Kalman variance for noises 0.2 and 0.2 is 0.04 (√5 − 1)/2.
    assert squared(floor, video.Z) == pytest.approx(0.04 * (5**0.5 - 1) / 2, rel=0.15)
    assert squared(video.seen, video.Z) > 1.4 * squared(floor, video.Z)


@needs_sprites
def test_positions_tell_nearly_all_of_a_heart():
    video = images.sprites(300, 1)
    floor = images.sprites_floor(video.seen, np.random.default_rng(0))
    assert 0.003 < squared(floor, video.Z) < squared(video.seen, video.Z) < 0.012


@pytest.mark.statistics
def test_the_lstm_remembers():
    # The state is the mean of the last three inputs, which a single one does not tell.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 4))
    signal = X[:, 0]
    Z = np.stack([np.convolve(signal, np.ones(3) / 3)[:700], np.roll(signal, 1)], axis=1)
    means = lstm(X[:500], Z[:500], X[500:], Perceptron((16,)), 300, True, 0)
    assert means.shape == (200, 2)
    assert squared(means, Z[500:]) < 0.5 * Z.var(axis=0).sum()
    # The last steps of training are the window of the first test.
    again = lstm(X[:500], Z[:500], X[500:501], Perceptron((16,)), 300, True, 0)
    np.testing.assert_allclose(again[0], means[0], atol=1e-4)
    assert WINDOW == 10


def test_summary_pairs_runs_by_seed():
    base = {"system": "room", "T": 60, "seconds": 0.0}
    best, other = "IW(NN), convolutions", "IW"
    rows = [
        {**base, "seed": 0, "method": best, "error": 0.1},
        {**base, "seed": 1, "method": best, "error": 0.3},
        {**base, "seed": 0, "method": other, "error": 0.2},
        {**base, "seed": 1, "method": other, "error": 0.2},
        {**base, "seed": 2, "method": other, "error": 0.5},
    ]
    table = {row["method"]: row for row in figure5_6.summary(rows)}
    assert table[other]["error"] == pytest.approx(0.3)
    assert table[other]["se"] == pytest.approx(0.1)
    assert table[other]["IW(NN) better"] == "1/2"
    assert table[best]["runs"] == 2


@needs_sprites
@pytest.mark.statistics
def test_the_quick_form_runs(tmp_path, capsys):
    figure5_6.run(tmp_path, quick=True)
    for name in ("figure5_6", "figure3_4"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "knows the model" in capsys.readouterr().out


def test_errors_are_drawn_at_their_methods():
    rows = [
        {"system": name, "T": 500, "seed": seed, "method": method, "error": (1 + seed) * 5e-3 * scale}
        for name in images.SYSTEMS
        for seed in (0, 1)
        for method, scale in (("IW", 1), ("LSTM, dense", 2))
    ]
    axes = figure5_6.plot(figure5_6.summary(rows)).axes
    names = [label.get_text() for label in axes[0].get_yticklabels()]
    for ax in axes:
        at = {names[int(y)]: x for bar in ax.containers for x, y in bar.lines[0].get_xydata()}
        assert at == pytest.approx({"IW": 7.5e-3, "LSTM, dense": 1.5e-2})


def test_seeds_of_the_report_are_not_those_of_the_trials(tmp_path, monkeypatch):
    seeds = []

    def one(name, T, seed, methods, quick):
        seeds.append(seed)
        return [{"system": name, "T": T, "seed": seed, "method": m, "error": 0.1} for m in methods]

    monkeypatch.setattr(figure5_6, "one", one)
    monkeypatch.setattr(figure5_6, "pictures", lambda seed: figure5_6.new_figure(1, 1)[0])
    monkeypatch.setattr(figure5_6, "RUNS", 2)
    figure5_6.run(tmp_path, seed=3)
    assert set(seeds) == {figure5_6.FIRST_SEED + 3, figure5_6.FIRST_SEED + 4}
