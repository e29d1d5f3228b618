"""mh.Neural: modules of one's own, images, estimators, files, and refusals that say what to do."""

import copy
import dataclasses
import io
import pickle

import numpy as np
import pytest

import muhat as mh
from muhat.gram import Convolutional, NeuralKernel, Perceptron

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
F = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]]
QUICK = {"features": 4, "epochs": 3}
IMAGES = rng.uniform(size=(40, 8 * 6 * 2))


def own_module(out=4, dropout=False):
    import equinox as eqx
    import jax

    keys = jax.random.split(jax.random.key(0), 2)
    layers = [eqx.nn.Linear(3, 8, key=keys[0]), eqx.nn.Lambda(jax.numpy.tanh)]
    if dropout:
        layers.append(eqx.nn.Dropout(0.5))
    return eqx.nn.Sequential([*layers, eqx.nn.Linear(8, out, use_bias=False, key=keys[1])])


@pytest.fixture(scope="module")
def kernel():
    return mh.Neural.mlp((8,), **QUICK).train(X, F, random_state=0)


@pytest.fixture(scope="module")
def images():
    return mh.Neural.convolutional((8, 6, 2), (4,), **QUICK).train(IMAGES, IMAGES[:, :2], random_state=0)


@pytest.fixture(scope="module")
def own():
    return mh.Neural(own_module(), epochs=3).train(X, F, random_state=0)


class TestKernel:
    @pytest.mark.slow
    def test_is_the_network_behind_a_standardised_row(self, kernel):
        rows = (X - kernel.centre) / kernel.scale
        np.testing.assert_allclose(rows.std(axis=0), 1)
        raw = np.stack([np.asarray(kernel.module()(row.astype(np.float32))) for row in rows])
        expected = 0.5**0.5 * kernel.gain * (raw - kernel.offset)
        np.testing.assert_allclose(kernel.features(X)[:, 1:], expected, atol=1e-5)
        assert repr(kernel) == "NeuralKernel(Perceptron(widths=(8,)), p=5)"
        assert kernel.resolve(X) is kernel

    @pytest.mark.slow
    def test_works_under_jax(self, kernel):
        import jax
        import jax.numpy as jnp

        A = jnp.asarray(X[:7], dtype=jnp.float32)
        np.testing.assert_allclose(kernel.features(A), kernel.features(X[:7]), atol=1e-5)
        through = jax.jit(lambda k, a: k(a))(kernel, A)
        np.testing.assert_allclose(through, kernel(X[:7]), atol=1e-5)
        slope = jax.grad(lambda a: kernel.diag(a[None])[0])(A[0])
        h = np.eye(3) * 1e-2
        ends = kernel.diag(X[:1] + h) - kernel.diag(X[:1] - h)
        np.testing.assert_allclose(slope, ends / 2e-2, atol=2e-2)

    def test_copies_and_pickles(self, kernel):
        before = kernel.features(X)
        for twin in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
            assert twin == kernel
            np.testing.assert_array_equal(twin.features(X), before)

    def test_other_columns_are_refused(self, kernel):
        with pytest.raises(
            ValueError, match="X has 2 columns but the X that the network was trained on has 3"
        ):
            kernel.features(X[:, :2])

    def test_non_finite_features_of_a_far_row_are_refused(self, kernel):
        far = X[:3].copy()
        far[1] = 1e300
        with pytest.raises(ValueError, match=r"non-finite features .* of row 1"), np.errstate(over="ignore"):
            kernel.features(far)

    @pytest.mark.slow
    def test_constant_columns_are_safe(self):
        A = np.c_[X, np.full(80, 0.3), np.zeros(80)]
        trained = mh.Neural.mlp((8,), **QUICK).train(A, F, random_state=0)
        assert np.isfinite(trained.features(A)).all()
        np.testing.assert_array_equal(trained.scale[3:], 1)


class TestNetworks:
    @pytest.mark.slow
    def test_of_ones_own_is_trained_and_left_alone(self, own):
        module = own_module()
        assert own.size == 5
        assert not np.array_equal(own.module().layers[0].weight, module.layers[0].weight)
        np.testing.assert_array_equal(own_module().layers[0].weight, module.layers[0].weight)
        assert own.module().layers[2].bias is None
        assert "Sequential" in repr(own)

    @pytest.mark.slow
    def test_dropout_is_off_after_training(self):
        trained = mh.Neural(own_module(dropout=True), epochs=3).train(X, F, random_state=0)
        np.testing.assert_array_equal(trained.features(X), trained.features(X))
        on = own_module(dropout=True)
        assert trained.module().layers[2].inference
        assert not on.layers[2].inference

    @pytest.mark.slow
    def test_images_share_one_scale(self, images):
        assert len(set(images.scale)) == len(set(images.centre)) == 1
        assert images.size == 5
        assert images.network == Convolutional((8, 6, 2), (4,), 1)

    @pytest.mark.slow
    def test_a_convolution_sees_the_image_in_its_order(self):
        import jax

        network = Convolutional((8, 6, 2), (4,), 1)
        module = network.build(96, 3, jax.random.key(0))
        image = np.zeros((8, 6, 2), np.float32)
        image[2, 5, 1] = 1.0
        seen = np.asarray(module.layers[0](image.reshape(-1)))
        assert seen.shape == (2, 8, 6)
        assert np.argwhere(seen).tolist() == [[1, 2, 5]]
        pooled = (
            Convolutional((8, 6, 2), (4,), 2).build(96, 3, jax.random.key(0)).layers[0](image.reshape(-1))
        )
        assert pooled.shape == (2, 4, 3)
        assert pooled[1, 1, 2] == pytest.approx(2 / 4)

    def test_large_images_are_averaged_first(self):
        assert Convolutional((64, 64, 1)).pool == 2
        assert Convolutional((36, 48, 3)).pool == 2
        assert Convolutional((33, 48, 3)).pool == 1
        assert Convolutional((28, 28, 1)).pool == 1


class TestEstimators:
    @pytest.mark.slow
    def test_conditional_mean(self):
        y = np.sin(2 * X[:, 0])
        neural = mh.Neural.mlp((16,), features=8, epochs=60, learning_rate=3e-2)
        model = mh.ConditionalMean(representation=neural).fit(X, y)
        assert isinstance(model.kernel_x_, NeuralKernel)
        assert isinstance(model.kernel_y_, mh.Gaussian)
        assert model.reg_ == model.kernel_x_.training.reg == model.selection_.reg
        np.testing.assert_array_equal(model.selection_.path[:, 1:], model.kernel_x_.training.path)
        again = mh.ConditionalMean(representation=neural).fit(X, y)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9
        weights = model.at(X[:2]).weights
        np.testing.assert_allclose(weights @ y, model.predict(X[:2]), atol=1e-8)
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=0.2)

    @pytest.mark.slow
    def test_a_pair_and_a_given_regulariser(self):
        pair = (mh.Neural.mlp((8,), **QUICK), mh.Nystrom(10))
        model = mh.ConditionalMean(reg=0.1, representation=pair).fit(X, F)
        assert model.reg_ == 0.1
        assert model.selection_ is None
        assert model.kernel_y_.size == 10

    @pytest.mark.slow
    def test_without_rows_kept_out_the_regulariser_is_by_leave_one_out(self):
        model = mh.ConditionalMean(representation=mh.Neural.mlp((8,), validation=0.0, **QUICK)).fit(X, F)
        assert len(model.kernel_x_.training.path) == 0
        assert model.reg_ == model.selection_.reg

    @pytest.mark.slow
    def test_categories_to_be_explained(self):
        pd = pytest.importorskip("pandas")
        label = pd.DataFrame({"c": np.where(X[:, 0] > 0, "p", "n")})
        model = mh.ConditionalMean(representation=mh.Neural.mlp((16,), epochs=30)).fit(X, label)
        positive = (label["c"] == "p").to_numpy().astype(float)
        assert ((model.expect(positive, X) > 0.5) == positive).mean() > 0.9

    def test_x_alone_cannot_train_it(self):
        with pytest.raises(TypeError, match=r"has to be trained.*ConditionalMean.*train\(X, targets\)"):
            mh.embed(X, mh.Gaussian(1.0), representation=mh.Neural())
        with pytest.raises(TypeError, match="has to be trained"):
            mh.ConditionalMean(representation=(mh.Exact(), mh.Neural())).fit(X, F)

    def test_the_trained_kernel_goes_anywhere(self, kernel):
        mu = mh.embed(X, kernel)
        np.testing.assert_allclose(mu(X[:3]), kernel(X[:3], X).mean(axis=1), atol=1e-6)
        assert mh.embed(X, kernel, representation=mh.Neural()).kernel is kernel


class TestFiles:
    @pytest.mark.parametrize("which", ["kernel", "images"])
    def test_ready_networks_come_back(self, which, request, tmp_path):
        trained = request.getfixturevalue(which)
        A = X if which == "kernel" else IMAGES
        before = trained.features(A)
        mh.save(trained, tmp_path / "file")
        back = mh.load(tmp_path / "file")
        assert back == trained
        np.testing.assert_array_equal(back.features(A), before)
        np.testing.assert_array_equal(back.training.loss, trained.training.loss)

    def test_estimators_come_back(self, tmp_path):
        model = mh.ConditionalMean(representation=mh.Neural.mlp((8,), **QUICK)).fit(X, F)
        mh.save(model, tmp_path / "file")
        back = mh.load(tmp_path / "file")
        assert back.representation == model.representation
        np.testing.assert_array_equal(back.predict(X), model.predict(X))

    @pytest.mark.slow
    def test_a_module_of_ones_own_is_refused(self, own, tmp_path):
        with pytest.raises(TypeError, match="cannot be saved"):
            mh.save(own, tmp_path / "file")
        model = mh.ConditionalMean(representation=mh.Neural(own_module(), epochs=2)).fit(X, F)
        with pytest.raises(TypeError, match=r"representation\.module is a Sequential, which cannot be saved"):
            mh.save(model, tmp_path / "file")
        assert not (tmp_path / "file").exists()


@pytest.mark.slow
def test_neither_precision_nor_configuration_of_jax_matters(kernel):
    import jax
    import jax.numpy as jnp

    before = dict(jax.config.values)
    again = mh.Neural.mlp((8,), **QUICK).train(X, F, random_state=0)
    assert dict(jax.config.values) == before
    with jax.enable_x64(True):
        double = mh.Neural.mlp((8,), **QUICK).train(X, F, random_state=0)
        np.testing.assert_array_equal(double.features(X), kernel.features(X))
        module = jax.tree.map(lambda a: a.astype(jnp.float64) if hasattr(a, "dtype") else a, own_module())
        trained = mh.Neural(module, epochs=2).train(X, F, random_state=0)
    assert {w.dtype for w in trained.weights} == {np.dtype(np.float32)}
    assert jnp.ones(1).dtype == jnp.float32
    assert again == double == kernel


def broken(kind):
    """Modules that go wrong in their own ways."""
    import equinox as eqx
    import jax.numpy as jnp

    functions = {
        "NaN": lambda x: jnp.log(-jnp.abs(x) - 1),
        "matrix": lambda x: x[:, None],
        "scalar": lambda x: x.sum(),
        "whole numbers": lambda x: (x > 0).astype(int),
        "pair": lambda x: (x, x),
        "other size": lambda x: jnp.ones((4, 7)) @ x,
        "constant": lambda x: 0 * x,
    }
    return eqx.nn.Lambda(functions[kind])


REFUSALS = {
    "NaN": (
        lambda: mh.Neural(broken("NaN")),
        {},
        ValueError,
        r"non-finite features \(feature 0 of row 0",
    ),
    "matrix": (lambda: mh.Neural(broken("matrix")), {}, ValueError, r"shape \(p,\).*gave float32 \(3, 1\)"),
    "scalar": (lambda: mh.Neural(broken("scalar")), {}, ValueError, r"gave float32 \(\)"),
    "whole": (lambda: mh.Neural(broken("whole numbers")), {}, ValueError, r"gave int32 \(3,\)"),
    "pair": (lambda: mh.Neural(broken("pair")), {}, ValueError, r"gave tuple"),
    "size": (
        lambda: mh.Neural(broken("other size")),
        {},
        ValueError,
        r"cannot take a row of X.*shape \(3,\)",
    ),
    "constant": (lambda: mh.Neural(broken("constant")), {}, ValueError, "the same features for all rows"),
    "image": (
        lambda: mh.Neural.convolutional((2, 2, 1)),
        {},
        ValueError,
        r"\(2, 2, 1\) has 4 numbers but .* 3",
    ),
    "image shape": (
        lambda: mh.Neural.convolutional((2, 2)),
        {},
        ValueError,
        r"shape must be \(height, width",
    ),
    "pool": (lambda: mh.Neural.convolutional((9, 9, 1), pool=2), {}, ValueError, "pool=2 does not divide"),
    "widths": (lambda: mh.Neural.mlp(64), {}, TypeError, "widths must be several whole numbers, got 64"),
    "width": (lambda: mh.Neural.mlp((64, 0)), {}, ValueError, "widths must be at least 1, got 0"),
    "module": (lambda: mh.Neural("mlp"), {}, TypeError, r"module must be an equinox module.*got 'mlp'"),
    "features": (lambda: mh.Neural(features=0), {}, ValueError, "features must be at least 1"),
    "batch": (lambda: mh.Neural(batch_size=1), {}, ValueError, "batch_size must be at least 2"),
    "rate": (lambda: mh.Neural(learning_rate=0.0), {}, ValueError, "learning_rate must be positive"),
    "decay": (
        lambda: mh.Neural(weight_decay=-1),
        {},
        ValueError,
        "weight_decay must be a number ≥ 0, got -1",
    ),
    "validation": (
        lambda: mh.Neural(validation=1.0),
        {},
        ValueError,
        "validation must be a share from 0 to 0.9",
    ),
    "standardize": (lambda: mh.Neural(standardize="rows"), {}, ValueError, "standardize must be 'columns'"),
    "reg": (lambda: mh.Neural(), {"reg": -1.0}, ValueError, "reg must be positive"),
    "rows": (lambda: mh.Neural(), {"targets": F[:-1]}, ValueError, "X has 80 rows but targets has 79"),
    "NaN rows": (lambda: mh.Neural(), {"X": np.full((80, 3), np.nan)}, ValueError, "X contains NaN"),
    "one row": (lambda: mh.Neural(), {"X": X[:1], "targets": F[:1]}, ValueError, "at least 2 are needed"),
    "weights": (lambda: mh.Neural(), {"weights": -np.ones(80)}, ValueError, r"weights .*≥ 0.*clip"),
    "no weights": (lambda: mh.Neural(), {"weights": np.zeros(80)}, ValueError, "not all 0"),
    "many weights": (lambda: mh.Neural(), {"weights": np.ones(79)}, ValueError, r"shape \(80,\)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case):
    make, options, error, match = REFUSALS[case]
    with pytest.raises(error, match=match):
        make().train(**{"X": X, "targets": F, "random_state": 0, **options})


@pytest.mark.slow
def test_a_breakdown_in_training_says_what_to_change():
    neural = mh.Neural.mlp((8,), learning_rate=1e30, epochs=20)
    with pytest.raises(ValueError, match=r"non-finite features.*[Ll]ower learning_rate|the same features"):
        neural.train(X, F, random_state=0)


@pytest.mark.slow
def test_few_rows():
    trained = mh.Neural.mlp((8,), **QUICK).train(X[:2], F[:2], random_state=0)
    assert trained.features(X).shape == (80, 5)
    assert len(trained.training.held_out) == 0


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("terminal", "progress"), [(False, True), (True, False), (True, True)])
def test_the_bar_is_for_terminals(monkeypatch, terminal, progress):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    mh.Neural.mlp((8,), progress=progress, **QUICK).train(X, F, random_state=0)
    assert ("features" in stream.getvalue()) == (terminal and progress)


def test_options_are_equal_by_value():
    assert mh.Neural.mlp([8, 4]) == mh.Neural.mlp((8, 4)) == mh.Neural(Perceptron((8, 4)))
    assert dataclasses.replace(mh.Neural(), epochs=7).epochs == 7
