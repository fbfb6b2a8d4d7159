"""Model cards, evaluation results and bills of materials."""
