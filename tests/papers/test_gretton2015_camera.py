"""The camera of Gretton (2015): the room, the path, the Kalman filters, the whole in its quick form."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.spatial.transform import Rotation

from papers.gretton2015 import __main__ as papers
from papers.gretton2015.camera import experiment, filters, kalman, ridge, room, rotations

FOLDER = Path(papers.__file__).parent
RESULTS = FOLDER / "results"
has_results = pytest.mark.skipif(
    not (RESULTS / "camera.csv").is_file(), reason="the table of the full run is not committed yet"
)


def angles(R):
    return Rotation.from_matrix(R.reshape(-1, 3, 3)).as_euler("ZYX")


@pytest.fixture(scope="module")
def path():
    return rotations.wander(3600, np.random.default_rng(0))


# Rotations.


def test_the_path_is_smooth_and_goes_far(path):
    matrices = path.reshape(-1, 3, 3)
    np.testing.assert_allclose(
        matrices @ matrices.transpose(0, 2, 1), np.tile(np.eye(3), (3600, 1, 1)), atol=1e-12
    )
    steps = Rotation.from_matrix(matrices[1:] @ matrices[:-1].transpose(0, 2, 1)).as_rotvec()
    assert np.linalg.norm(steps, axis=1).max() < np.deg2rad(30)
    turn = np.linalg.norm(np.diff(steps, axis=0), axis=1)
    assert np.median(turn) < 0.4 * np.median(np.linalg.norm(steps, axis=1))  # velocities change slowly
    yaw, pitch, roll = angles(path).T
    assert np.histogram(yaw, 12, (-np.pi, np.pi))[0].min() > 100  # all round
    for swing in (pitch, roll):
        assert swing.min() < -0.95 * rotations.SWING
        assert swing.max() > 0.95 * rotations.SWING
    # No two rounds are the same: yaw and pitch do not go together.
    assert abs(np.corrcoef(np.cos(yaw), pitch)[0, 1]) < 0.2


def test_the_nearest_rotation_beats_its_neighbours(path):
    rng = np.random.default_rng(1)
    M = path[:20] + rng.standard_normal((20, 9))
    near = rotations.nearest_rotation(M)
    assert np.linalg.det(near.reshape(-1, 3, 3)) == pytest.approx(1.0)
    for size in (0.01, 0.3, 3.0):
        turned = Rotation.from_rotvec(size * rng.standard_normal((20, 3))).as_matrix() @ near.reshape(
            -1, 3, 3
        )
        assert np.all(rotations.errors(near, M) < rotations.errors(turned.reshape(-1, 9), M))
    np.testing.assert_allclose(rotations.nearest_rotation(path[:5]), path[:5], atol=1e-12)


def test_errors_are_those_of_the_angle(path):
    turn = Rotation.from_rotvec([0.0, 0.3, 0.4]).as_matrix()
    turned = (path[:5].reshape(-1, 3, 3) @ turn).reshape(-1, 9)
    assert rotations.errors(turned, path[:5]) == pytest.approx(8 * np.sin(0.25) ** 2)


def test_quaternions_are_continuous_and_come_back(path):
    q = rotations.quaternions(path)
    assert np.linalg.norm(np.diff(q, axis=0), axis=1).max() < 0.3
    assert (q[:, 3] < 0).any()  # which one sign for all would not be
    np.testing.assert_allclose(rotations.from_quaternions(-2.0 * q), path, atol=1e-12)


# The room.


def test_views_are_images_in_range_and_never_random(path):
    X = room.render(path[:3])
    assert X.shape == (3, 1200)
    assert X.min() >= 0
    assert X.max() <= 1
    np.testing.assert_array_equal(X, room.render(path[:3]))
    np.testing.assert_array_equal(X[1], room.render(path[1:2])[0])
    assert room.render(path[:2], height=6, width=8).shape == (2, 144)


@pytest.mark.parametrize("face", range(6))
def test_the_middle_of_a_view_is_what_lies_ahead(face):
    ahead = np.zeros(3)
    ahead[face // 2] = 1 - 2 * (face % 2)
    turn, _ = Rotation.align_vectors(ahead[None], [[1.0, 0.0, 0.0]])
    pixel = room.render(turn.as_matrix().reshape(1, 9), 1, 1, view=0.02)[0]
    middle = room.textures()[face, 63:65, 63:65].mean(axis=(0, 1))
    np.testing.assert_allclose(pixel, middle, atol=0.02)


def test_the_picture_moves_against_the_camera():
    """Yawing to the left by a pixel moves the picture to the right by one, pitching down moves it up."""
    view, pixels = 0.4, 40
    pixel = 2 * np.tan(view / 2) / pixels
    before, yawed, pitched = room.render(
        Rotation.from_euler("ZYX", [[0, 0, 0], [pixel, 0, 0], [0, pixel, 0]]).as_matrix().reshape(-1, 9),
        pixels,
        pixels,
        view,
    ).reshape(3, pixels, pixels, 3)
    middle = slice(10, 30)
    moved = {
        "right": before[middle, 9:29],
        "left": before[middle, 11:31],
        "up": before[11:31, middle],
        "down": before[9:29, middle],
        "not": before[middle, middle],
    }
    for image, way in ((yawed, "right"), (pitched, "up")):
        gaps = {name: np.abs(image[middle, middle] - other).mean() for name, other in moved.items()}
        assert min(gaps, key=gaps.__getitem__) == way
    # A roll by a quarter puts the camera's left side up: what was up is now on the left.
    rolled = room.render(Rotation.from_euler("X", np.pi / 2).as_matrix().reshape(1, 9), pixels, pixels, view)
    np.testing.assert_allclose(rolled.reshape(before.shape), np.rot90(before), atol=0.05)


def test_every_direction_looks_different(path):
    far = path[::36]
    X = room.render(far)
    gap = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    turned = 6 - 2 * far @ far.T
    # Noise of variance 1e-3 puts two views of one direction 1.5 apart.
    assert gap[turned > 0.25].min() > 3.0


# Baselines.


def test_ridge_is_chosen_on_blocks_and_reports_their_residuals():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-3, 3, 120))[:, None]
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] ** 2]) + 0.1 * rng.standard_normal((120, 2))
    rng.shuffle(order := np.arange(120))
    fitted = ridge.fit_ridge(X[order], Y[order])
    assert np.mean((fitted.predict(X) - Y) ** 2) < 0.02
    train, held = ridge.blocks(120)[1]
    K = np.exp(-0.5 * (X[order] - X[order].T) ** 2 / fitted.lengthscale**2)
    inside = K[np.ix_(train, train)] + len(train) * fitted.reg * np.eye(len(train))
    outputs = Y[order] - Y.mean(axis=0)
    expected = outputs[held] - K[np.ix_(held, train)] @ np.linalg.solve(inside, outputs[train])
    np.testing.assert_allclose(fitted.residuals[held], expected, atol=1e-6)
    assert np.diff(held).tolist() == [1] * (len(held) - 1)


def test_windows_look_back():
    X = np.arange(8.0).reshape(4, 2)
    expected = [[0, 1, 0, 1, 0, 1], [2, 3, 0, 1, 0, 1], [4, 5, 2, 3, 0, 1], [6, 7, 4, 5, 2, 3]]
    np.testing.assert_array_equal(ridge.windows(X, 3), expected)


def test_components_keep_what_varies_most():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 9)) + 3.0
    components = kalman.Components.fit(X, 2)
    back = components.scores(X) @ components.axes.T + components.centre
    np.testing.assert_allclose(back, X, atol=1e-9)


def test_the_matrix_of_a_quaternion_and_its_jacobian(path):
    q = 1.3 * rotations.quaternions(path)[7]
    value, J = kalman.matrix_of(q)
    np.testing.assert_allclose(value, 1.69 * path[7], atol=1e-12)
    for i, e in enumerate(1e-6 * np.eye(4)):
        slope = (kalman.matrix_of(q + e)[0] - kalman.matrix_of(q - e)[0]) / 2e-6
        np.testing.assert_allclose(J[:, i], slope, atol=1e-8)


def test_the_learned_observation_and_its_jacobian(path):
    R = path[:150]
    fitted = ridge.fit_ridge(R, R[:, :3] ** 2)
    observe = kalman.ridge_observation(fitted)
    value, J = observe(path[200])
    np.testing.assert_allclose(value, fitted.predict(path[200:201])[0], atol=1e-8)
    for i, e in enumerate(1e-5 * np.eye(9)):
        np.testing.assert_allclose(
            J[:, i], (observe(path[200] + e)[0] - observe(path[200] - e)[0]) / 2e-5, atol=1e-4
        )


def test_with_the_right_model_the_filter_is_that_of_kalman():
    """Against the conditional mean of the joint Gaussian of all states and observations."""
    rng = np.random.default_rng(0)
    A, C = np.array([[0.9, 0.2], [-0.2, 0.8]]), rng.standard_normal((3, 2))
    Q, V, T = np.diag([0.3, 0.1]), np.diag([0.5, 0.2, 0.4]), 4
    move = kalman.Linear(A, np.array([0.1, -0.2]), Q)
    see = kalman.Linear(C, np.array([0.3, 0.0, -0.1]), V)
    Y = rng.standard_normal((T, 3))
    start = np.array([1.0, -1.0])
    means, covariance = [start], np.zeros((2 * T, 2 * T))
    covariance[:2, :2] = Q
    for t in range(1, T):
        means.append(move(means[-1])[0])
        a, b = slice(2 * t - 2, 2 * t), slice(2 * t, 2 * t + 2)
        covariance[b, : 2 * t] = A @ covariance[a, : 2 * t]
        covariance[: 2 * t, b] = covariance[b, : 2 * t].T
        covariance[b, b] = A @ covariance[a, a] @ A.T + Q
    H = np.kron(np.eye(T), C)
    S = H @ covariance @ H.T + np.kron(np.eye(T), V)
    gap = np.concatenate([y - see(m)[0] for y, m in zip(Y, means, strict=True)])
    last = means[-1] + (covariance @ H.T @ np.linalg.solve(S, gap))[-2:]
    np.testing.assert_allclose(kalman.extended_kalman(Y, start, move, see, V)[-1], last, atol=1e-10)


def test_a_linear_fit_finds_its_model():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4000, 2))
    b = a @ np.array([[1.0, 2.0], [0.0, -1.0]]).T + [3.0, 4.0] + 0.1 * rng.standard_normal((4000, 2))
    found = kalman.Linear.fit(a, b)
    np.testing.assert_allclose(found.A, [[1, 2], [0, -1]], atol=0.02)
    np.testing.assert_allclose(found.c, [3, 4], atol=0.02)
    np.testing.assert_allclose(found.covariance, 0.01 * np.eye(2), atol=0.001)


# Filters.


def test_point_estimates_know_of_so3_with_the_trace_kernel_alone():
    mean = np.ones((1, 9))
    gauss, trace = (filters.Setting("importance", kernel, 1.0) for kernel in ("gauss", "trace"))
    np.testing.assert_array_equal(gauss.estimate(mean), mean)
    np.testing.assert_array_equal(trace.estimate(mean), rotations.nearest_rotation(mean))


def test_the_setting_of_least_error_is_chosen(path):
    R = path[:160]
    X = room.render(R, 6, 6)
    good = filters.Setting("importance", "trace", float(ridge.median_distance(X)))
    bad = filters.Setting("importance", "trace", 1e3 * good.lengthscale_x)  # all images look alike
    assert filters.choose(iter([bad, good]), X, R, 30) is good
    assert filters.choose(iter([good, bad]), X, R, 30) is good


def test_noise_has_the_variance_asked_for():
    size = experiment.Size(30, 10)
    for noise in experiment.NOISES:
        video = experiment.record(size, noise, 3)
        assert (video.X - video.clean).var() == pytest.approx(noise, rel=0.02)
    assert not np.array_equal(experiment.record(size, noise, 4).R, video.R)


def test_bad_counts_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        papers.main(["--quick", "--experiment", "camera", "--seeds", "0", "--out", str(tmp_path)])
    assert "--seeds: must be at least 1, got 0" in capsys.readouterr().err


def test_settings_come_back_from_their_rows():
    for method, (rule, kernel) in filters.METHODS.items():
        setting = filters.Setting(rule, kernel, 3.5, reg=2e-6, landmarks=40)
        assert filters.Setting.of({"noise": 1e-4, "method": method, **setting.row()}) == setting


@pytest.mark.slow
def test_runs_that_are_there_are_not_repeated(tmp_path, monkeypatch):
    asked = []

    def estimates(video, size, chosen, default):
        asked.append((sorted(chosen), default))
        return dict.fromkeys(experiment.SHOWN, video.R[size.train :] + 0.1)

    monkeypatch.setattr(experiment, "Size", lambda: experiment.QUICK)
    monkeypatch.setattr(experiment, "estimates", estimates)
    chosen = {m: filters.Setting(*of, 1.0) for m, of in filters.METHODS.items()}
    monkeypatch.setattr(experiment, "choices", lambda *_: chosen)
    experiment.run(tmp_path, seeds=1)
    assert len(asked) == 3  # two noises, and those of the figure
    runs = pl.read_csv(tmp_path / "camera_runs.csv")
    monkeypatch.setattr(experiment, "choices", None)  # made once
    experiment.run(tmp_path, seeds=2)
    assert len(asked) == 6
    both = pl.read_csv(tmp_path / "camera_runs.csv")
    assert both.head(runs.height).equals(runs)
    assert both["seed"].to_list() == [0] * runs.height + [1] * runs.height
    monkeypatch.setattr(experiment, "choices", lambda *_: chosen)
    experiment.run(tmp_path, quick=True)  # leaves them as they are
    assert pl.read_csv(tmp_path / "camera_runs.csv").equals(both)


@pytest.mark.statistics
def test_everything_runs_in_its_quick_form(tmp_path, capsys):
    assert papers.main(["--quick", "--experiment", "camera", "--out", str(tmp_path)]) == 0
    rows = pl.read_csv(tmp_path / "camera.csv")
    assert rows.height == 2 * (len(experiment.NAMES) - 1)  # without the default filter, which searches long
    found = {row["method"]: row["mse"] for row in rows.filter(pl.col("noise") == 1e-3).iter_rows(named=True)}
    # Two rotations at random are 6 apart, and a linear filter hardly does better on 240 frames.
    for method in filters.METHODS:
        assert found[method] < 1.5 < found["kalman_9"]
    assert "KBR (trace)" in capsys.readouterr().out
    assert (tmp_path / "camera.png").read_bytes().startswith(b"\x89PNG")


# What is committed.


@has_results
def test_the_readme_gives_the_errors_of_the_table():
    text = (FOLDER / "README.md").read_text()
    for row in pl.read_csv(RESULTS / "camera.csv").iter_rows(named=True):
        cells = [
            experiment._with_error(row["published"], row["published_se"]),
            experiment._with_error(row["mse"], row["se"]),
            f"{row['in_so3']:.3f}",
            f"{row['median']:.3f}",
        ]
        line = " | ".join([experiment.NAMES[row["method"]], *cells]).replace("|  |", "| |")
        assert f"| {line} |" in text
    for row in pl.read_csv(RESULTS / "camera_settings.csv").iter_rows(named=True):
        cells = [
            f"{row['lengthscale_x']:.1f}",
            *(f"{row[key]:.0e}" for key in ("reg", "reg_prior", "reg_transition")),
        ]
        assert " | ".join([f"| {row['noise']:g}", experiment.NAMES[row["method"]], *cells]) + " |" in text


@has_results
def test_pictures_are_small_and_shown():
    text = (FOLDER / "README.md").read_text()
    assert "results/camera.png" in text
    for file in re.findall(r"results/[\w.]+", text):
        assert (FOLDER / file).is_file(), file
    for file in RESULTS.glob("camera*"):
        assert file.stat().st_size < 400_000, file.name


@has_results
def test_the_claims_hold_in_what_is_committed():
    rows = pl.read_csv(RESULTS / "camera.csv").iter_rows(named=True)
    error = {(row["noise"], row["method"]): row["mse"] for row in rows}
    for noise in experiment.NOISES:
        for method in filters.METHODS:
            assert error[noise, method] < 0.4 * error[noise, "kalman_9"]
            assert error[noise, method] < 0.4 * error[noise, "kalman_quaternion"]
