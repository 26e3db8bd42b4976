"""From two pandas frames and a list of edges to labels, an explanation and a report.

    python examples/tables_to_report.py [FOLDER]

FOLDER receives the reports; the default is reports.
"""

import sys

import pandas as pd

from kcagc import KCAGC
from kcagc.datasets import generate

data = generate(300, 3, degree=6, homophily=0.7, signal=3, features=(3, 3), seed=4)  # in place of your own files
customers = [f"customer-{number}" for number in range(300)]
bank, shop = (pd.DataFrame(table, index=customers) for table in data.parties())
bank.columns, shop.columns = ["savings", "card payments", "payments abroad"], ["groceries", "toys", "wine"]
ends = data.adjacency.tocoo()
edges = pd.DataFrame({"source": [customers[row] for row in ends.row], "target": [customers[row] for row in ends.col]})

model = KCAGC(n_clusters=3, random_state=0).fit({"bank": bank, "shop": shop}, adjacency=edges)
print(model.labels_frame().head(3))
print(model.explain("customer-7")["shop"])
print(*model.report(sys.argv[1] if len(sys.argv) > 1 else "reports"), sep="\n")
