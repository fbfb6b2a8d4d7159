"""Benchmark suites: averages of scores as their papers compute them."""
