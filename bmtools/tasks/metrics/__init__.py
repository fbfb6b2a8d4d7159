"""Metrics of annotations and answers; they take plain values and never import torch."""
