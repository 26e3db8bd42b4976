"""Running roles: in one process (`in_process`), or on the network (`client`, `server`) with a durable journal."""
