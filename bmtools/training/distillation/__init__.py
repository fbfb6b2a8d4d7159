"""Distillation: smaller models that learn to predict as larger ones."""
