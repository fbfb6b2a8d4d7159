"""Lineage: the steps and inputs that an output was made from, and checks of them."""
