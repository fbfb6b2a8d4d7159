"""Sums of energy and emissions over the steps of a study, and statements of them."""
