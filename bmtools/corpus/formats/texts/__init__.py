"""Text formats: articles, pages, books and tables of text."""
