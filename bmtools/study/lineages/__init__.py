"""Lineage of outputs: the steps and inputs that led to them, and checks of these."""
