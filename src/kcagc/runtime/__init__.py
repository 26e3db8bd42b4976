"""Running roles: `station` carries out what one role asks, `in_process` lets several run against each other."""
