"""Every name on the notation page exists."""

import importlib
import inspect
import re

import numpy as np
import pytest
from docs_pages import ROOT

import muhat
from muhat.embedding import Reference
from muhat.operators import Groups

PAGE = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\w+\))?"


def names():
    """The code in the last column of the tables that end in a column named muhat, and all mh.… names."""
    out, inside = [], False
    for line in PAGE.splitlines():
        if not line.startswith("|"):
            inside = False
            out += re.findall(rf"`mh\.({NAME})`", line)
        elif re.search(r"\| muhat \|$", line):
            inside = True
        elif inside:
            out += re.findall(rf"`({NAME})`", line.rstrip("| ").rsplit("|", 1)[1])
        else:
            out += re.findall(rf"`mh\.({NAME})`", line)
    return sorted(set(out) - {"X", "Y", "Z"})


@pytest.fixture(scope="module")
def instances():
    """Objects whose attributes are set when they are made, not on their class."""
    X = np.linspace(0, 1, 8)[:, None]
    model = muhat.ConditionalMean(muhat.Gaussian(1.0), reg=0.1).fit(np.repeat(X, 2, axis=0), np.arange(16.0))
    assert model.groups_ is not None
    density = muhat.embed(X).density()
    return {
        muhat.ConditionalMean: model,
        muhat.Embedding: muhat.embed(X),
        muhat.Density: density,
        Reference: density.reference,
        Groups: model.groups_,
    }


def resolve(name, instances):
    path, _, argument = name.rstrip(")").partition("(")
    thing = muhat
    for part in path.split("."):
        if inspect.ismodule(thing) and not hasattr(thing, part):
            thing = importlib.import_module(f"{thing.__name__}.{part}")
        elif hasattr(thing, part):
            thing = getattr(thing, part)
        else:
            thing = getattr(instances[thing], part)
    if argument:
        assert argument in inspect.signature(thing).parameters, f"{path} takes no {argument}"
    return thing


@pytest.mark.parametrize("name", names())
def test_the_name_exists(name, instances):
    resolve(name, instances)


def test_names_are_found():
    found = names()
    assert len(found) > 25
    assert {"ConditionalMean(reg)", "gram.Gram.ridge(weights)", "Density.coefficients", "mmd"} <= set(found)


def test_a_wrong_name_is_noticed(instances):
    with pytest.raises((AttributeError, KeyError, ModuleNotFoundError)):
        resolve("ConditionalMean.nowhere", instances)
    with pytest.raises(AssertionError):
        resolve("ConditionalMean(lamda)", instances)
