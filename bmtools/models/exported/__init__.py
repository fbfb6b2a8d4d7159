"""Models exported for other engines, and their use in place of checkpoints."""
