"""Provenance: records of how outputs were made, and what leads back from them."""
