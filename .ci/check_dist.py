"""Check what `make dist` built: one wheel and one source archive, sound metadata, the right files."""

import sys
import tarfile
import zipfile
from pathlib import Path

from packaging.metadata import Metadata


def check(wheel: Path, archive: Path) -> list[str]:
    """What is wrong, one line each."""
    wrong = []
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        [info] = {name.split("/")[0] for name in names if ".dist-info/" in name}
        texts = [opened.read(f"{info}/METADATA")]
    package = {"muhat/py.typed", "muhat/__init__.pyi", "muhat/models/causation.npz"}
    missing = {*package, f"{info}/licenses/LICENSE"} - set(names)
    wrong += [f"{wheel.name}: no {name}" for name in sorted(missing)]
    others = {name.split("/")[0] for name in names} - {"muhat", info}
    wrong += [f"{wheel.name}: {name} does not belong in it" for name in sorted(others)]
    with tarfile.open(archive) as opened:
        root = archive.name.removesuffix(".tar.gz")
        names = [name.removeprefix(f"{root}/") for name in opened.getnames()]
        texts.append(opened.extractfile(f"{root}/PKG-INFO").read())
    missing = {*package, "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} - set(names)
    wrong += [f"{archive.name}: no {name}" for name in sorted(missing)]
    for text in texts:
        metadata = Metadata.from_email(text, validate=True)  # an ExceptionGroup names every bad field
        if not metadata.description or metadata.description_content_type != "text/markdown":
            wrong.append("the metadata have no description in Markdown")
    if texts[0] != texts[1]:
        wrong.append("wheel and source archive have different metadata")
    return wrong


if __name__ == "__main__":
    [wheel], [archive] = Path("dist").glob("*.whl"), Path("dist").glob("*.tar.gz")
    sys.exit("\n".join(check(wheel, archive)) or None)
