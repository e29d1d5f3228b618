"""Saving and loading: arrays and JSON in one zip file, no pickle.

A file holds ``muhat.json`` (what the objects are, and the version of the format) and one ``.npy`` for
each array. Loading makes objects of a fixed list of classes and sets plain values on them: it runs
nothing that is in the file.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from muhat._array import is_jax
from muhat._bags import Bags, GaussianBags
from muhat._files import whole_file
from muhat._linalg import Cholesky
from muhat._tables import Encoder
from muhat._version import __version__
from muhat.embedding import Atoms, Density, Embedding, Mixture, Reference
from muhat.embedding.marginals import Marginals, Scatter
from muhat.embedding.moments import MomentEmbedding
from muhat.gram import (
    BlockedGram,
    Convolutional,
    DenseGram,
    Exact,
    Factored,
    Fourier,
    KroneckerGram,
    LowRankGram,
    Neural,
    Nystrom,
    Perceptron,
    Training,
)
from muhat.kernels.base import Kernel
from muhat.learning.bags import BagsChoice
from muhat.learning.causation import Trees
from muhat.learning.coordinates import Coordinates
from muhat.learning.density import DensityChoice
from muhat.learning.filtering import FilterChoice
from muhat.learning.held_out import BayesChoice
from muhat.learning.learn_kernel import LearnedKernel
from muhat.learning.leave_one_out import LeaveOneOut
from muhat.learning.likelihood_free import MethodChoice
from muhat.learning.moved import MovedChoice, Ridge
from muhat.learning.residuals import Regression, Standard
from muhat.learning.sample_task import SampledTask
from muhat.learning.simulations import Options, RuleChoice, Simulations
from muhat.learning.summaries import Summary
from muhat.learning.supports import Support
from muhat.learning.task_transformed import LearnedTask
from muhat.messages import Beta, Gamma, Normal, Tuples
from muhat.models import (
    BayesianEmbedding,
    BayesianWitness,
    CauseEffect,
    ConditionalDensity,
    ConditionalMean,
    DensityRatio,
    DistributionClassifier,
    DistributionRegressor,
    Filtered,
    KernelBayes,
    KernelBayesFilter,
    LikelihoodFree,
    MessageOperator,
    Posterior,
    SimulatedPosterior,
    TaskTransformedGP,
)
from muhat.models.density_ratio import RatioChoice
from muhat.models.filtered import MomentFiltered
from muhat.models.posterior import MomentPosterior
from muhat.operators.bags import Landmarks, TwoStage, Weights
from muhat.operators.bayes.streamed import LastPrior
from muhat.operators.conditional import Groups
from muhat.operators.density import DensitySums
from muhat.operators.moments import Moments
from muhat.operators.streamed_filtering import FilterMoments
from muhat.simulation.simulated import Failure, Simulated

FORMAT = 1
_MANIFEST = "muhat.json"
_OTHERS = (
    Atoms,
    Bags,
    BagsChoice,
    BayesChoice,
    BayesianEmbedding,
    BayesianWitness,
    Beta,
    BlockedGram,
    CauseEffect,
    Cholesky,
    ConditionalDensity,
    ConditionalMean,
    Convolutional,
    Coordinates,
    DenseGram,
    Density,
    DensityChoice,
    DensityRatio,
    DensitySums,
    DistributionClassifier,
    DistributionRegressor,
    Embedding,
    Encoder,
    Exact,
    Factored,
    Failure,
    FilterChoice,
    FilterMoments,
    Filtered,
    Fourier,
    Gamma,
    GaussianBags,
    Groups,
    KernelBayes,
    KernelBayesFilter,
    KroneckerGram,
    Landmarks,
    LastPrior,
    LearnedKernel,
    LearnedTask,
    LeaveOneOut,
    LikelihoodFree,
    LowRankGram,
    Marginals,
    MessageOperator,
    MomentEmbedding,
    MomentFiltered,
    MomentPosterior,
    Moments,
    MethodChoice,
    Mixture,
    MovedChoice,
    Neural,
    Normal,
    Nystrom,
    Options,
    Perceptron,
    Posterior,
    RatioChoice,
    Reference,
    Regression,
    Ridge,
    RuleChoice,
    SampledTask,
    Scatter,
    Simulated,
    SimulatedPosterior,
    Simulations,
    Standard,
    Summary,
    Support,
    TaskTransformedGP,
    Training,
    Trees,
    Tuples,
    TwoStage,
    Weights,
)


def _classes() -> dict[str, type]:
    return {cls.__name__: cls for cls in (*Kernel._classes, *_OTHERS)}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, an embedding, a kernel or a density to ``path``.

    The file is written whole or not at all.
    """
    if type(model).__name__ not in _classes() or type(model) is not _classes()[type(model).__name__]:
        raise TypeError(
            f"model must be an object of muhat (an estimator, embedding, density or kernel), got "
            f"{type(model).__name__}."
        )
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    arrays: list[np.ndarray] = []
    manifest = {
        "format": FORMAT,
        "muhat": __version__,
        "object": _pack(model, arrays, type(model).__name__),
    }
    with whole_file(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest))
        for i, array in enumerate(arrays):
            with archive.open(f"{i}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what :func:`save` wrote. Nothing in the file is executed."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}: check the path.")
    with open(path, "rb") as file:
        try:
            archive = zipfile.ZipFile(file)
            manifest = json.loads(archive.read(_MANIFEST))
            version, writer = _version(manifest["format"]), manifest["muhat"]
            if version <= FORMAT:
                return _unpack(manifest["object"], lambda i: _array(archive, i))
        except Exception as error:  # a damaged file can make its readers stumble in any way
            raise ValueError(
                f"{str(path)!r} is not a muhat file, or is damaged ({type(error).__name__}: {error}): load "
                "a file that mh.save wrote, or save the model again."
            ) from None
    raise ValueError(
        f"{str(path)!r} was written by muhat {writer} in format {version}, newer than this muhat "
        f"{__version__} (format {FORMAT}): upgrade muhat to read it."
    )


def _version(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise TypeError(f"format {value!r} is no version of the format")
    return value


def _array(archive: zipfile.ZipFile, index: Any) -> np.ndarray:
    data = io.BytesIO(archive.read(f"{int(index)}.npy"))
    return np.lib.format.read_array(data, allow_pickle=False)


def _pack(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    """``value`` as JSON, its arrays put aside."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if is_jax(value) or isinstance(value, np.ndarray):
        array = np.asarray(value)
        if array.dtype == object and array.ndim == 1 and all(isinstance(v, str) for v in array):
            return {"texts": list(array)}
        if array.dtype == object:
            raise TypeError(f"{where} holds Python objects and cannot be saved: make it numbers or text.")
        arrays.append(array)
        return {"array": len(arrays) - 1}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_pack(v, arrays, f"{where}[{i}]") for i, v in enumerate(value)]}
    if isinstance(value, dict):
        return {
            "dict": [[_pack(k, arrays, where), _pack(v, arrays, f"{where}[{k!r}]")] for k, v in value.items()]
        }
    if _classes().get(type(value).__name__) is type(value):
        # Names with one underscore are made again after loading; the rest is the state.
        keep = getattr(type(value), "_prepare", None) is None
        state = value._saved() if hasattr(value, "_saved") else vars(value)
        fields = {
            k: _pack(v, arrays, f"{where}.{k}") for k, v in state.items() if keep or not k.startswith("_")
        }
        return {"class": type(value).__name__, "fields": fields}
    raise TypeError(
        f"{where} is a {type(value).__name__}, which cannot be saved: muhat files hold numbers, text and "
        "muhat's own objects (a function of yours must be given again after loading)."
    )


def _unpack(value: Any, array: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return array(value["array"])
    if "texts" in value:
        return np.array([str(v) for v in value["texts"]], dtype=object)
    if "list" in value:
        return [_unpack(v, array) for v in value["list"]]
    if "tuple" in value:
        return tuple(_unpack(v, array) for v in value["tuple"])
    if "dict" in value:
        return {_unpack(k, array): _unpack(v, array) for k, v in value["dict"]}
    cls = _classes().get(value["class"])
    if cls is None:
        raise KeyError(f"unknown class {value['class']!r}")
    out = object.__new__(cls)
    for name, field in value["fields"].items():
        if name.startswith("__") or callable(getattr(cls, name, None)):
            raise KeyError(f"forbidden field {name!r}")
        object.__setattr__(out, name, _unpack(field, array))
    prepare = getattr(cls, "_prepare", None)
    if prepare is not None:
        prepare(out)
    return out
