"""k-means wholly inside SPU, as its own KMeans does it; run by the Python of .venv-spu: JOB.npz RESULT.json PROTOCOL.

All parties are threads of this one process, joined by SPU's in-memory links: no TLS, no network, which favours it.
"""

import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import spu
from spu.utils import simulation

PARTIES = {"SEMI2K": 2, "ABY3": 3}


def kmeans(parts, start, n_iterations):
    """Return the cluster of each row; `start` are the rows of the initial centres."""
    rows = jnp.concatenate(parts, axis=1)
    centers = jnp.concatenate([rows[row : row + 1] for row in start])
    n_clusters = len(start)
    labels = jnp.zeros(rows.shape[0], dtype=jnp.int32)
    for _ in range(n_iterations):
        away = jnp.sum(centers * centers, axis=1)[None, :] - 2 * jnp.matmul(rows, centers.T)
        labels = jnp.argmin(away, axis=1)
        belongs = (labels[:, None] == jnp.arange(n_clusters)[None, :]).astype(rows.dtype)
        counts = jnp.sum(belongs, axis=0)
        centers = jnp.matmul(belongs.T, rows) / counts[:, None]
    return labels


class Timed(simulation.Simulator):
    """Measures sharing, running and opening, without compilation."""

    seconds = 0.0

    def __call__(self, *values):
        """Run, and take the time."""
        begin = time.perf_counter()
        result = super().__call__(*values)
        self.seconds = time.perf_counter() - begin
        return result


def main():
    """Run once, with the links' own counts of bytes read from what SPU prints."""
    job, result, name = sys.argv[1:]
    given = np.load(job)
    ends = given["ends"].tolist()
    parts = [given["rows"][:, begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    start, n_iterations = given["start"].tolist(), int(given["n_iterations"])
    config = spu.RuntimeConfig(protocol=getattr(spu.ProtocolKind, name), field=spu.FieldType.FM64)
    config.enable_pphlo_profile = True  # counts bytes
    machine = Timed(PARTIES[name], config)
    function = simulation.sim_jax(machine, lambda *tables: kmeans(tables, start, n_iterations))
    labels = function(*parts)
    Path(result).write_text(
        json.dumps(
            {
                "seconds": machine.seconds,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "labels": np.asarray(labels).astype(int).tolist(),
                "version": version("spu"),
            }
        )
    )


if __name__ == "__main__":
    main()
