"""Statistics of scores: resampling, intervals and paired tests."""
