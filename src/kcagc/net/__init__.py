"""Transport of frames between roles: TLS files, gRPC client and server, probe. Nothing here knows the protocol."""
