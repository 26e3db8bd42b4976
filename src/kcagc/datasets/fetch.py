"""Downloading the original files, each checked by its SHA-256 before anything is made of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from kcagc.datasets.catalog import Entry, SourceFile
from kcagc.datasets.convert import convert
from kcagc.datasets.model import Dataset, write
from kcagc.errors import DownloadError

# A folder on a web server that holds copies of all original files under their own names, tried instead of the public
# addresses. For organisations whose machines reach only a server of their own.
MIRROR = "KCAGC_DATA_URL"

_TIMEOUT = 30  # seconds without a byte


def fetch(entry: Entry, target: Path, *, progress: Callable[[str], None] | None = None) -> Dataset:
    """Download, check and convert one public graph, and keep it at `target`.

    Originals go to a temporary folder and `target` is written last and whole: whatever fails, nothing is left behind.
    """
    with tempfile.TemporaryDirectory(prefix="kcagc-") as folder:
        for file in entry.files:
            if progress is not None:
                progress(f"{file.name} ({file.bytes / 1e6:.1f} MB)")
            _download(file, Path(folder))
        dataset = convert(entry, Path(folder))
    write(dataset, target)
    return dataset


def _download(file: SourceFile, folder: Path) -> None:
    """Try each address in turn; the error of the last resort lists what each of them answered."""
    try:
        import pooch  # noqa: PLC0415 - only downloads need it
    except ImportError:
        raise DownloadError(
            "downloading needs the package pooch: pip install 'kcagc[datasets]' (or point KCAGC_DATA at a folder)"
        ) from None
    pooch.get_logger().setLevel("ERROR")
    mirror = os.environ.get(MIRROR)
    failures = []
    for url in (f"{mirror.rstrip('/')}/{file.name}",) if mirror else file.urls:
        try:
            pooch.retrieve(
                url,
                known_hash=f"sha256:{file.sha256}",
                fname=file.name,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),
            )
        except ValueError:  # pooch's word for a wrong hash; it has already deleted what arrived
            failures.append(f"{url}: the file that arrived is not the original (its SHA-256 is not {file.sha256})")
        except OSError as error:  # what requests raises, all of it
            failures.append(f"{url}: {_reason(error)}")
        else:
            return
    raise DownloadError(f"{file.name} could not be downloaded, and nothing was kept:\n  " + "\n  ".join(failures))


def _reason(error: OSError) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    return (
        f"{type(error).__name__}: the server could not be reached" if "Connect" in type(error).__name__ else str(error)
    )
