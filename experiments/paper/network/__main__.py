"""Try one run: python -m experiments.paper.network DATASET PARTIES K_HAT lan|wan|none [paper|default]."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from experiments.paper.network.measure import default_settings, measure, paper_settings
from experiments.paper.network.relay import NETWORKS
from kcagc.datasets import load


def main() -> None:
    """Measure what was asked for, and print it."""
    options = argparse.ArgumentParser(prog="python -m experiments.paper.network", description=__doc__)
    options.add_argument("dataset")
    options.add_argument("parties", type=int)
    options.add_argument("local_clusters", metavar="K_HAT", help='a number, or a multiple such as "2k"')
    options.add_argument("network", choices=[*NETWORKS, "none"])
    options.add_argument("configuration", nargs="?", choices=["paper", "default"], default="paper")
    options.add_argument("--random-state", type=int, default=0)
    options.add_argument("--trace", type=Path, help="show what waited for what, and keep all moments in this file")
    asked = options.parse_args()
    data = load(asked.dataset)
    settings = (
        paper_settings(data.n_classes, asked.local_clusters)
        if asked.configuration == "paper"
        else default_settings(asked.local_clusters)
    ) | {"random_state": asked.random_state}
    figures = measure(data, asked.parties, settings, NETWORKS.get(asked.network), trace=asked.trace is not None)
    path = ""
    if asked.trace is not None:
        asked.trace.write_text(json.dumps(figures.pop("trace")), encoding="utf-8")
        path = "\nWho waited for what, in milliseconds:\n" + figures.pop("path") + "\n"
    sys.stdout.write(json.dumps(figures, indent=2) + "\n" + path)


if __name__ == "__main__":
    main()
