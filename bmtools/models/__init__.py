"""Architectures, checkpoints and the transfer of weights."""
