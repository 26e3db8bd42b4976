"""A role as an organisation runs it: its configuration file, its folder, its data, its results."""
