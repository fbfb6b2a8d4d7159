"""Energy and emissions of commands: counters, what is allotted and declared, grids, statements."""
