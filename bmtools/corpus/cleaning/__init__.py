"""Rules of `clean`: repairs of texts, records left out, personal data."""
