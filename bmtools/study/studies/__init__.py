"""Studies: a file of steps that are repeated over models, sets and seeds, and what runs it."""
