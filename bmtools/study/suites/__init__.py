"""Benchmark suites, with averages of scores as in their papers."""
