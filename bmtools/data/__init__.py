"""Tokenized shards, packing, sampling, NSP pairs and batches."""
