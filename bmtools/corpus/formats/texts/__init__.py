"""Text formats: articles, pages, books and tables with texts."""
