"""Energy of a command: meters of the machine, declared values and grids."""
