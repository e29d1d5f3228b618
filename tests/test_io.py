"""Saving and loading: the same bits back, nothing executed, and clear words for what is no file of ours."""

import json
import os
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import muhat as mh
from muhat.embedding import Reference
from muhat.learning import LeaveOneOut

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 2))
Y = np.c_[np.sin(X[:, 0]), X[:, 1]] + 0.1 * rng.standard_normal((40, 2))
Q = rng.standard_normal((7, 2))
TABLE = pd.DataFrame({"a": X[:, 0], "c": rng.choice(list("pqr"), 40)})
QUERY = pd.DataFrame({"a": Q[:, 0], "c": ["p", "q", "r", "new", "p", "q", "r"]})
KERNEL = mh.Gaussian(0.8)


def round_trip(value, tmp_path):
    path = tmp_path / "file.muhat"
    mh.save(value, path)
    with zipfile.ZipFile(path) as archive:  # nothing in it that could run
        assert archive.testzip() is None
        for name in archive.namelist():
            with archive.open(name) as file:
                if name == "muhat.json":
                    json.load(file)
                else:
                    array = np.lib.format.read_array(file, allow_pickle=False)
                    assert array.dtype != object
    return mh.load(path)


def same(a, b):
    """Equal bit for bit, in type and shape too."""
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b), strict=True)


KERNELS = [
    mh.Gaussian(0.3),
    mh.Gaussian([0.3, 1 / 3]),
    mh.Gaussian("median"),
    mh.Gaussian("scaled"),
    mh.Laplace(0.7),
    mh.Laplace(0.7, norm=2),
    mh.Matern(2.5, 1.1),
    mh.RationalQuadratic(0.9, alpha=0.1),
    mh.Cauchy(2.0),
    mh.InverseMultiquadric(0.4, beta=0.7),
    mh.Linear(bias=0.1),
    mh.Polynomial(3, bias=0.5),
    mh.Delta(0.2),
    2.5 * mh.Gaussian(0.3) + mh.Linear(),
    mh.Gaussian(0.3).on(0) * (mh.Laplace(0.2) + 0.1 * mh.Matern(0.5, 3.0)).on([1]),
    mh.Gaussian(0.3).on("a") * mh.Delta().on("c"),
    mh.Gaussian(0.3).smoothed(2, sd=1.5),
    mh.Nystrom(9).fit(mh.Laplace(1.0), X, 0),
    mh.Fourier(8).fit(mh.Gaussian(1.0), X, 0),
]


class TestKernels:
    @pytest.mark.parametrize("kernel", KERNELS, ids=repr)
    def test_come_back(self, kernel, tmp_path):
        back = round_trip(kernel, tmp_path)
        assert back == kernel
        assert repr(back) == repr(kernel)
        if "'a'" not in repr(kernel):
            same(back(X, Q), kernel(X, Q))

    def test_rotation(self, tmp_path):
        R = np.stack([np.eye(3), np.diag([1.0, -1, -1])]).reshape(2, 9)
        same(round_trip(mh.Rotation(), tmp_path)(R), mh.Rotation()(R))

    def test_parameters_of_jax(self, tmp_path):
        import jax.numpy as jnp

        back = round_trip(mh.Gaussian(jnp.asarray(0.5)), tmp_path)
        np.testing.assert_allclose(back(X), mh.Gaussian(0.5)(X), rtol=1e-6)


EMBEDDINGS = {
    "exact": lambda: mh.embed(X, KERNEL),
    "default": lambda: mh.embed(X),
    "batch": lambda: mh.embed(X, KERNEL, weights=rng.standard_normal((3, 40))),
    "shrunk": lambda: mh.embed(X, KERNEL, shrink=0.1),
    "nystrom": lambda: mh.embed(X, KERNEL, representation=mh.Nystrom(9)),
    "fourier": lambda: mh.embed(X, KERNEL, representation=mh.Fourier(8)),
    "single precision": lambda: mh.embed(X.astype(np.float32), KERNEL),
    "witness": lambda: mh.embed(X, KERNEL) - mh.embed(Q, KERNEL),
    "one": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1).fit(X, Y).at(Q)[2],
    "conditional": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1).fit(X, Y).at(Q),
    "factored": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1, mh.Nystrom(9)).fit(X, Y).at(Q),
}


class TestEmbeddings:
    @pytest.mark.parametrize("name", EMBEDDINGS)
    @pytest.mark.parametrize("used", [False, True])
    def test_come_back(self, name, used, tmp_path):
        mu = EMBEDDINGS[name]()
        if used:
            mu(Q)  # coefficients are made on the way
        back = round_trip(mu, tmp_path)
        assert repr(back) == repr(mu)
        same(back.weights, mu.weights)
        same(back(Q), mu(Q))
        same(back.norm(), mu.norm())
        same(back.mean(), mu.mean())
        if name != "witness":  # a difference has no mass, and so no quantiles
            same(back.quantile([0.1, 0.5]), mu.quantile([0.1, 0.5]))
        np.testing.assert_allclose(back.distance(mu), mu.distance(mu), rtol=1e-12, atol=1e-7)

    @pytest.mark.parametrize(
        "frame", [TABLE, TABLE.astype({"c": "category"}), pl.DataFrame(TABLE.to_dict("list"))]
    )
    def test_of_tables(self, frame, tmp_path):
        mu = mh.embed(frame)
        back = round_trip(mu, tmp_path)
        same(back(QUERY), mu(QUERY))
        assert back.encoder.names == ["a", "c"]
        assert back.encoder.categories[1].tolist() == ["p", "q", "r"]
        with pytest.raises(ValueError, match=r"columns \['c'\] are categories"):
            back.mean()

    def test_joint(self, tmp_path):
        fitted = mh.ConditionalMean(KERNEL, KERNEL, 0.1).fit(X, Y)
        joint = fitted.chain(mh.embed(Q, KERNEL))
        same(round_trip(joint, tmp_path)(np.c_[Q, Q]), joint(np.c_[Q, Q]))


class TestDensities:
    @pytest.mark.parametrize("batch", [False, True])
    @pytest.mark.parametrize("reference", [None, X, [np.linspace(-3, 3, 9), np.linspace(-3, 3, 8)]])
    def test_come_back(self, batch, reference, tmp_path):
        weights = rng.dirichlet(np.ones(40), 2) if batch else None
        density = mh.embed(X, KERNEL, weights=weights).density(reference, kernel=mh.Gaussian(0.5))
        back = round_trip(density, tmp_path)
        assert isinstance(back.reference, Reference)
        same(back.pdf(Q), density.pdf(Q))
        same(back.mass, density.mass)
        assert back.reg == density.reg


MODELS = {
    "exact": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1).fit(X, Y),
    "automatic": lambda: mh.ConditionalMean().fit(X, Y),
    "blocked": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1, mh.Exact(memory=0)).fit(X, Y),
    "nystrom": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1, mh.Nystrom(9)).fit(X, Y),
    "landmarks": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1, mh.Nystrom(landmarks=X[:5])).fit(X, X),
    "fourier": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1, mh.Fourier(8)).fit(X, Y),
    "vector": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1).fit(X, Y[:, 0]),
    "grouped": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1).fit(np.repeat(X[:10], 4, axis=0), Y),
    "grouped nystrom": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1, mh.Nystrom(5)).fit(
        np.repeat(X[:10], 4, axis=0), Y
    ),
    "single precision": lambda: mh.ConditionalMean(KERNEL, KERNEL, 0.1).fit(X.astype("f"), Y.astype("f")),
}


class TestModels:
    @pytest.mark.parametrize("name", MODELS)
    def test_come_back(self, name, tmp_path):
        fitted = MODELS[name]()
        before = fitted.predict(Q)
        back = round_trip(fitted, tmp_path)
        same(back.predict(Q), before)
        same(fitted.predict(Q), before)
        same(back.at(Q).weights, fitted.at(Q).weights)
        same(back.at(Q)(back.Y_[:4].reshape(4, -1)), fitted.at(Q)(fitted.Y_[:4].reshape(4, -1)))
        same(back.push(mh.embed(Q, KERNEL)).weights, fitted.push(mh.embed(Q, KERNEL)).weights)
        y = Y[:, 0] if name == "vector" else X if name == "landmarks" else Y
        assert back.score(X, y) == fitted.score(X, y)
        assert repr(back) == repr(fitted)
        assert back.reg_ == fitted.reg_
        if name == "automatic":
            assert isinstance(back.selection_, LeaveOneOut)
            same(back.selection_.path, fitted.selection_.path)

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(9)])
    @pytest.mark.parametrize(
        "frame", [TABLE, TABLE.astype({"c": "category"}), pl.DataFrame(TABLE.to_dict("list"))]
    )
    def test_of_tables(self, frame, representation, tmp_path):
        fitted = mh.ConditionalMean(reg=0.01, representation=representation).fit(frame, Y)
        back = round_trip(fitted, tmp_path)
        same(back.predict(QUERY), fitted.predict(QUERY))
        same(back.feature_names_in_, fitted.feature_names_in_)
        with pytest.raises(ValueError, match="feature names"):
            back.predict(QUERY[["c", "a"]])

    def test_with_categories_as_outputs(self, tmp_path):
        fitted = mh.ConditionalMean(reg=0.01).fit(X, TABLE[["c"]])
        back = round_trip(fitted, tmp_path)
        same(back.expect(lambda y: y[:, 0] == 1, Q), fitted.expect(lambda y: y[:, 0] == 1, Q))
        with pytest.raises(ValueError, match="Y has categories"):
            back.predict(Q)

    def test_can_be_fitted_and_saved_again(self, tmp_path):
        back = round_trip(MODELS["nystrom"](), tmp_path)
        again = round_trip(back, tmp_path)
        same(again.predict(Q), back.predict(Q))
        back.fit(X[:20], Y[:20])
        same(
            back.predict(Q),
            mh.ConditionalMean(KERNEL, KERNEL, 0.1, mh.Nystrom(9)).fit(X[:20], Y[:20]).predict(Q),
        )


class TestSaving:
    def test_paths_may_be_text(self, tmp_path):
        mh.save(KERNEL, str(tmp_path / "kernel"))
        assert mh.load(str(tmp_path / "kernel")) == KERNEL

    @pytest.mark.parametrize(
        "thing", [3.0, X, "text", None, {"a": 1}, np.sin, object()], ids=lambda thing: type(thing).__name__
    )
    def test_only_our_own_objects(self, thing, tmp_path):
        with pytest.raises(TypeError, match=r"model must be an object of muhat .*got"):
            mh.save(thing, tmp_path / "file")
        assert os.listdir(tmp_path) == []

    def test_an_estimator_must_be_fitted(self, tmp_path):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            mh.save(mh.ConditionalMean(), tmp_path / "file")
        assert os.listdir(tmp_path) == []

    def test_a_function_of_the_user_cannot_be_saved(self, tmp_path):
        fitted = mh.ConditionalMean(reg=0.1, representation=mh.Features(lambda z: np.c_[z, z**2])).fit(X, Y)
        with pytest.raises(TypeError, match=r"ConditionalMean\.\w+.* cannot be saved.*a function of yours"):
            mh.save(fitted, tmp_path / "file")
        with pytest.raises(TypeError, match=r"function.*cannot be saved"):
            mh.save(mh.embed(X, KERNEL, representation=mh.Features(np.tanh)), tmp_path / "file")
        assert os.listdir(tmp_path) == []

    def test_a_failed_save_keeps_the_file_that_was_there(self, tmp_path):
        path = tmp_path / "file"
        mh.save(KERNEL, path)
        before = path.read_bytes()
        fitted = mh.ConditionalMean(reg=0.1, representation=mh.Features(np.tanh)).fit(X, Y)
        with pytest.raises(TypeError):
            mh.save(fitted, path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["file"]

    def test_a_failure_while_writing_leaves_nothing_behind(self, tmp_path, monkeypatch):
        path = tmp_path / "file"
        mh.save(KERNEL, path)
        before = path.read_bytes()

        def full(*args, **kwargs):
            raise OSError("No space left on device")

        monkeypatch.setattr(np.lib.format, "write_array", full)
        with pytest.raises(OSError, match="No space left"):
            mh.save(mh.embed(X, KERNEL), path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["file"]

    def test_overwrites(self, tmp_path):
        mh.save(mh.embed(X, KERNEL), tmp_path / "file")
        mh.save(KERNEL, tmp_path / "file")
        assert mh.load(tmp_path / "file") == KERNEL
        assert os.listdir(tmp_path) == ["file"]

    def test_into_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            mh.save(KERNEL, tmp_path / "no" / "file")


def write(path, manifest, arrays=()):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("muhat.json", manifest if isinstance(manifest, str) else json.dumps(manifest))
        for i, array in enumerate(arrays):
            with archive.open(f"{i}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=True)
    return path


def manifest(thing, **changes):
    return {"format": 1, "muhat": mh.__version__, "object": thing, **changes}


GAUSSIAN = {"class": "Gaussian", "fields": {"lengthscale": 0.8}}
EMBEDDING = {
    "class": "Embedding",
    "fields": {
        "kernel": GAUSSIAN,
        "points": {"array": 0},
        "encoder": None,
        "_weights": {"array": 1},
        "_coefficients": None,
    },
}


class TestLoading:
    def test_a_missing_path(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"There is no file '.*nowhere'.*check the path"):
            mh.load(tmp_path / "nowhere")

    def test_a_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="There is no file"):
            mh.load(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"PK", b"hello", bytes(range(256)) * 20, b"\x80\x04K\x01."])
    def test_what_is_no_zip(self, content, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"file' is not a muhat file, or is damaged .*mh\.save"):
            mh.load(path)

    def test_a_plain_npz(self, tmp_path):
        np.savez(tmp_path / "file.npz", points=X)
        with pytest.raises(ValueError, match="is not a muhat file"):
            mh.load(tmp_path / "file.npz")

    def test_a_newer_format(self, tmp_path):
        path = write(tmp_path / "file", manifest({"unheard": "of"}, format=2, muhat="99.0"))
        with pytest.raises(
            ValueError, match=r"written by muhat 99\.0 in format 2, newer than .*upgrade muhat"
        ):
            mh.load(path)

    def test_handwritten_is_read(self, tmp_path):
        mu = mh.load(write(tmp_path / "file", manifest(EMBEDDING), [X, np.full(40, 1 / 40)]))
        same(mu(Q), mh.embed(X, KERNEL)(Q))

    @pytest.mark.parametrize(
        "content",
        [
            "",
            "{",
            "[]",
            "3",
            "null",
            '"text"',
            "{}",
            "[" * 100_000,
            manifest(GAUSSIAN, format="1"),
            manifest(GAUSSIAN, format=None),
            manifest(GAUSSIAN, format=-1),
            manifest(GAUSSIAN, format=True),
            manifest({"class": "Unknown", "fields": {}}),
            manifest({"class": "os.system", "fields": {}}),
            manifest({"class": ["Gaussian"], "fields": {}}),
            manifest({"class": {}, "fields": {}}),
            manifest({"class": "Gaussian"}),
            manifest({"class": "Gaussian", "fields": None}),
            manifest({"class": "Gaussian", "fields": [1]}),
            manifest({"fields": {}}),
            manifest({"array": 0}),
            manifest({"array": "../0"}),
            manifest({"array": None}),
            manifest({"array": 1e400}),
            manifest({"list": 3}),
            manifest({"tuple": None}),
            manifest({"dict": [1, 2]}),
            manifest({"dict": [[{"list": []}, 1]]}),
            manifest({"dict": [[1]]}),
            manifest({"texts": 3}),
            manifest({"class": "ConditionalMean", "fields": {}}),
            manifest({"class": "ConditionalMean", "fields": {"gram_": 3, "reg_": "x"}}),
            manifest({"class": "Embedding", "fields": {"weights": 3}}),
        ],
        ids=lambda content: str(content)[:60],
    )
    def test_a_wrong_manifest(self, content, tmp_path):
        with pytest.raises(ValueError, match="is not a muhat file, or is damaged"):
            mh.load(write(tmp_path / "file", content))

    @pytest.mark.parametrize(
        "name", ["__class__", "__dict__", "__reduce__", "_plan", "replace", "_prepare", "predict"]
    )
    def test_fields_that_would_change_behaviour(self, name, tmp_path):
        owner = "ConditionalMean" if name in ("_prepare", "predict") else "Gaussian"
        thing = {"class": owner, "fields": {"lengthscale": 0.8, name: GAUSSIAN}}
        with pytest.raises(ValueError, match=f"forbidden field '{name}'"):
            mh.load(write(tmp_path / "file", manifest(thing)))

    def test_missing_arrays(self, tmp_path):
        with pytest.raises(ValueError, match=r"damaged .*1\.npy"):
            mh.load(write(tmp_path / "file", manifest(EMBEDDING), [X]))

    def test_pickled_arrays_are_not_opened(self, tmp_path):
        trap = tmp_path / "sprung"

        class Trap:
            def __reduce__(self):
                return (open, (str(trap), "w"))

        bait = np.array([Trap()], dtype=object)
        path = write(tmp_path / "file", manifest(EMBEDDING), [bait, np.ones(1)])
        with pytest.raises(ValueError, match="damaged"):
            mh.load(path)
        assert not trap.exists()

    def test_an_array_that_claims_to_be_huge(self, tmp_path):
        path = tmp_path / "file"
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 1000), }"
        header += b" " * (128 - 10 - len(header) - 1) + b"\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("muhat.json", json.dumps(manifest(EMBEDDING)))
            archive.writestr("0.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        with pytest.raises(ValueError, match="damaged"):
            mh.load(path)
