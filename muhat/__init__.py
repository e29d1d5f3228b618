"""muhat: inference with distributions known only through samples, by kernel mean embeddings."""

import ast as _ast
from importlib import import_module as _import_module
from pkgutil import get_data as _get_data


# A name is imported when it is first used: `import muhat` is quick, and a kernel does not wait for
# scikit-learn. The names are written in __init__.pyi, where type checkers look too, and nowhere else.
def _homes() -> dict[str, str]:
    """The module of each name; of a module, itself."""
    stub = _ast.parse(_get_data(__name__, "__init__.pyi") or b"")
    return {
        alias.name: f"{__name__}.{alias.name}" if line.module == __name__ else str(line.module)
        for line in stub.body
        if isinstance(line, _ast.ImportFrom)
        for alias in line.names
    }


_HOMES = _homes()
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name for name, home in sorted(_HOMES.items()) if home != f"{__name__}.{name}"
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        module = _import_module(__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=module)
    # Of two threads that come here at once the import system lets one wait; both find the same object.
    home = _import_module(_HOMES[name])
    value = globals()[name] = getattr(home, name) if name in __all__ else home
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
