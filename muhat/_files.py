"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A draft beside ``path`` to write to; it takes the place of ``path`` if nothing fails."""
    target = Path(os.path.realpath(path))  # a link keeps being one
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Not an ordinary file, so it cannot be replaced", str(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder; make it first", str(target.parent))
    draft = target.with_name(target.name + ".part")
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
