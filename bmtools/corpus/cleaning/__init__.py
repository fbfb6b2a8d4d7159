"""Rules of `clean`: repairs of texts, filters of records, and personal data."""
