"""What both ends tell gRPC: sizes, keep-alive, and where the one method is."""

from __future__ import annotations

from kcagc.net.frames import LONGEST_FRAME

SERVICE = "kcagc.Relay"
METHOD = "Stream"
PATH = f"/{SERVICE}/{METHOD}"
REASON_KEY = "kcagc-reason"

_KEEPALIVE_MS = 10_000  # a lost connection is noticed within this and the next
_KEEPALIVE_TIMEOUT_MS = 10_000

COMMON: list[tuple[str, int]] = [
    # A longer message is refused by its header, before memory is taken for it.
    ("grpc.max_receive_message_length", LONGEST_FRAME),
    ("grpc.max_send_message_length", LONGEST_FRAME),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # How much may be under way before the receiver has said a word: a long message need not stop for it half way.
    ("grpc.http2.lookahead_bytes", 1 << 23),
]
SERVER: list[tuple[str, int]] = [
    *COMMON,
    ("grpc.so_reuseport", 0),  # otherwise two aggregators would share a port, and connections, without a word
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),  # of one that has no stream
]
