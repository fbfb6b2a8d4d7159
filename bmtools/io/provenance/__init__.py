"""Provenance: records of how outputs were made, and the licences of inputs."""
