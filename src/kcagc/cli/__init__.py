"""The command `kcagc`. Data goes to stdout, everything said to a person to stderr; nothing heavy is imported early."""
