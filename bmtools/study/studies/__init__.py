"""Studies: files of steps that are repeated over models, sets and seeds, and their execution."""
