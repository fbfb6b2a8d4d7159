"""Finding many words in text, and sampling the sentences that contain them."""
