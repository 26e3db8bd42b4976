"""Record what a role of an earlier version sends first, so that tests need no installation of that version.

    PYTHONPATH=CHECKOUT/src python tests/recorded/record_handshake.py FOLDER tests/recorded/VERSION-handshake.json

CHECKOUT holds version 0.5.0 (commit 430e9a0), and FOLDER is that of a role, made by `kcagc init` of that version.
"""

import json
import sys
from pathlib import Path

from kcagc.deployment.config import Config
from kcagc.transport.frames import LINK, Challenge, encode_frame

import kcagc

if __name__ == "__main__":
    inputs = Config.load(Path(sys.argv[1]) / "kcagc.toml").agreement().inputs()
    challenge = encode_frame(Challenge(LINK, "coordinator", bytes(32)))
    said = {"version": kcagc.__version__, "challenge": challenge.hex(), "inputs": inputs.hex()}
    Path(sys.argv[2]).write_text(json.dumps(said, indent=1) + "\n")
