"""The report of a run, at its end: what a party can say about the clusters, and the page that shows it.

The run is over and its labels are there. Whatever goes wrong here is a line in the log, and never fails the run.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

from kcagc._types import FloatArray
from kcagc.deploy.results import Places
from kcagc.deploy.task import Task
from kcagc.files.atomic import PRIVATE, write_text
from kcagc.protocol.fit import FitResult
from kcagc.protocol.predict import PredictResult
from kcagc.report.insights.confidence import confidence

logger = logging.getLogger(__name__)


def confidence_of(task: Task, result: Any) -> FloatArray | None:
    """Give how clearly each node belongs to its cluster in this party's own coordinates; a coordinator has none."""
    if not isinstance(result, FitResult | PredictResult) or result.rows is None:
        return None
    share = result.model if isinstance(result, FitResult) else None if task.model is None else task.model.share
    return None if share is None else confidence(result.rows, share.centers, share.clusters, result.labels)


def leave_report(task: Task, result: Any) -> None:
    """Write what there is to say about the clusters, and the page."""
    with _logged(task):
        logger.info("writing the report")
        describe_clusters(task, result)
        render(task.places)


def leave_page(task: Task) -> None:
    """Write the page from what a run left before."""
    with _logged(task):
        render(task.places)


@contextlib.contextmanager
def _logged(task: Task) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the labels are there, and nobody is to lose them for a page
        why = str(error) or type(error).__name__
        logger.warning(
            "the report could not be written: %s. The results are there; try: kcagc report %s", why, task.places.folder
        )


def describe_clusters(task: Task, result: Any) -> None:
    """Write `clusters.json`: from here on the page can be made again without data."""
    data = task.data
    sure = confidence_of(task, result)
    if data is None or sure is None or result.rows is None:
        return
    from kcagc.report.insights.describe import Description, describe  # noqa: PLC0415 - slow to import, and not always wanted

    new = task.new_rows
    found = describe(
        Description(
            labels=result.labels,
            n_clusters=task.agreement.parameters.n_clusters,
            table=data.features if new is None else data.features[new],
            columns=task.columns,
            rows=result.rows,
            confidence=sure,
            graph=data.graph if new is None else None,
        )
    )
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_text(task.places.clusters(), text + "\n", mode=PRIVATE)


def render(places: Places) -> None:
    """Write the page from what is in the folder."""
    from kcagc.report.page import write_page  # noqa: PLC0415 - as above

    write_page(places.folder)
