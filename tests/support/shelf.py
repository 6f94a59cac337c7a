"""Data files that are only names: what a plan needs of a DatasetPort."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from synth_train.ports.datasets import DatasetPort, Located


class _Shelf:
    def __init__(self, files: Mapping[str, str], working_directory: str) -> None:
        self._files = files
        self._cwd = working_directory

    def locate(self, name: str, *, beside: Path | None) -> Located:
        starts = [self._cwd] if beside is None else [str(beside), self._cwd]
        tried = list(dict.fromkeys(posixpath.normpath(posixpath.join(start, name)) for start in starts))
        found = [path for path in tried if path in self._files]
        shadowed = [path for path in found[1:] if self._files[path] != self._files[found[0]]]
        return Located(
            path=Path(found[0]) if found else None,
            tried=tuple(map(Path, tried)),
            shadowed=Path(shadowed[0]) if shadowed else None,
        )


def shelf(files: Mapping[str, str], *, working_directory: str = "/work") -> DatasetPort:
    """A port that finds `files`, contents by absolute path, and can do nothing else."""
    return cast("DatasetPort", _Shelf(files, working_directory))
