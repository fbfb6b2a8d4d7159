"""One masking strategy per file."""
