"""Downloading the original files, each checked by its SHA-256 before anything is made of it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcagc.datasets.catalog import Entry, SourceFile
from kcagc.datasets.convert import convert
from kcagc.datasets.model import Dataset, write
from kcagc.errors import DownloadError
from kcagc.text import size

# A folder on a web server that holds copies of all original files under their own names, tried instead of the public
# addresses. For organisations whose machines reach only a server of their own.
MIRROR = "KCAGC_DATA_URL"

_SILENCE = 30.0  # seconds without a byte
_DEADLINE = 600.0  # seconds for one file


def fetch(entry: Entry, target: Path, *, progress: Callable[[str], None] | None = None) -> Dataset:
    """Download, check and convert one public graph, and keep it at `target`.

    Originals go to a temporary folder and `target` is written last and whole: whatever fails, nothing is kept.
    """
    try:  # before the download, not after it
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise DownloadError(f"{target.parent}: cannot be written to ({error.strerror}); set KCAGC_CACHE") from error
    with tempfile.TemporaryDirectory(prefix="kcagc-") as folder:
        for file in entry.files:
            if progress is not None:
                progress(f"{file.name} ({size(file.bytes)})")
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
            "downloading needs the package pooch: pip install pooch (or point KCAGC_DATA at a folder with the graphs)"
        ) from None
    pooch.get_logger().setLevel("ERROR")
    failures = []
    for url in _addresses(file):
        try:
            pooch.retrieve(
                url, known_hash=f"sha256:{file.sha256}", fname=file.name, path=folder, downloader=_bounded(file.bytes)
            )
        except OSError as error:  # what requests raises, all of it
            failures.append(f"{url}: {_reason(error)}")
        except ValueError:  # pooch's word for a wrong hash; it has already deleted what arrived
            failures.append(f"{url}: the file that arrived is not the original (its SHA-256 is not {file.sha256})")
        else:
            return
    raise DownloadError(
        f"{file.name} could not be downloaded, and nothing was kept:\n  "
        + "\n  ".join(failures)
        + f"\nIf you have the graph as .npz, name its folder in KCAGC_DATA; if a web server of yours has copies of the "
        f"original files, name it in {MIRROR}."
    )


def _addresses(file: SourceFile) -> tuple[str, ...]:
    mirror = os.environ.get(MIRROR)
    if not mirror:
        return file.urls
    if not mirror.startswith(("http://", "https://")):
        raise DownloadError(f"{MIRROR}: must be a web address that begins with http:// or https://, not {mirror!r}")
    return (f"{mirror.rstrip('/')}/{file.name}",)


def _bounded(size: int) -> Callable[..., None]:
    """Give a downloader for pooch that stops at the size the file must have, and after a total time."""

    def download(url: str, output: str, *_: Any, **__: Any) -> None:
        import requests  # noqa: PLC0415 - comes with pooch

        deadline = time.monotonic() + _DEADLINE
        with requests.get(url, stream=True, timeout=_SILENCE) as response, Path(output).open("wb") as file:
            response.raise_for_status()
            # `read1` gives what has arrived; `read` would wait for a full block from a server that drips
            read = getattr(response.raw, "read1", response.raw.read)
            received = 0
            while content := read(1 << 16):
                received += len(content)
                if received > size:
                    raise OSError(f"the server sends more than the {size} bytes of the original")
                if time.monotonic() > deadline:
                    raise OSError(f"the file did not arrive within {_DEADLINE:g} seconds")
                file.write(content)

    return download


def _reason(error: OSError) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    name = type(error).__name__
    if name == "SSLError":
        return "the server's certificate was not accepted"
    return "the server could not be reached" if "Connect" in name else str(error)
