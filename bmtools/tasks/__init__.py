"""Label schemes, examples, heads and task metrics."""
