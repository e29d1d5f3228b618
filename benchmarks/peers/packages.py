"""The peers, imported only when asked for; a missing one is skipped with its reason."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

# Those of benchmarks/peers/requirements.txt need no remedy beyond `make bench-peers`.
_ELSEWHERE = {
    "mmdagg": "not on the package index: install it from its authors' repository antoninschrab/mmdagg",
    "mmdfuse": "not on the package index: install it from its authors' repository antoninschrab/mmdfuse",
}


class NotInstalled(RuntimeError):
    """A peer that this environment lacks; the message says how to get it."""


def peer(module: str) -> ModuleType:
    """Import a peer's module, or raise :class:`NotInstalled` with the remedy."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        remedy = _ELSEWHERE.get(package, "pip install -r benchmarks/peers/requirements.txt")
        raise NotInstalled(f"{package} not installed: {remedy} ({error})") from error


__all__ = ["NotInstalled", "peer"]
