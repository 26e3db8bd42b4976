"""The report at the end of a run: what a party can say about the clusters, and the page that shows it.

The labels are written before this starts. Any error here becomes a line in the log and never fails the run.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from kcagc.data.files import PRIVATE, write_text
from kcagc.deploy.run import RoleRun
from kcagc.report.folder import CLUSTERS, REPORT
from kcagc.report.insights.description import Description, describe
from kcagc.report.page import write_page

logger = logging.getLogger(__name__)


def write_report(run: RoleRun, result: Any) -> None:
    """Write the page and the description of the clusters; without a result, write the page if it is not there."""
    try:
        if result is not None:
            logger.info("writing the report")
            describe_clusters(run, result)
        elif (run.files.folder / REPORT).exists():
            return
        write_page(run.files.folder)
    except Exception as error:  # the labels are written, and an error in a page must not hide them
        why = str(error) or type(error).__name__
        folder = run.files.folder
        logger.warning(
            "the report could not be written: %s. The results are complete; try: kcagc report %s", why, folder
        )


def describe_clusters(run: RoleRun, result: Any) -> None:
    """Write `clusters.json`, from which the page can be written again without the data."""
    data, confidence = run.data, run.confidence(result)
    if data is None or confidence is None or result.rows is None:
        return
    new = run.new_rows
    found = describe(
        Description(
            labels=result.labels,
            n_clusters=run.agreement.parameters.n_clusters,
            table=data.features if new is None else data.features[new],
            columns=run.columns,
            rows=result.rows,
            confidence=confidence,
            graph=data.graph if new is None else None,
        )
    )
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_text(run.files.folder / CLUSTERS, text + "\n", mode=PRIVATE)
