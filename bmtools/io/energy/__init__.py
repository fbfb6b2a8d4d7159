"""Energy of a command: counters of the machine, declared values and electricity grids."""
