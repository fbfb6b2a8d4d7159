"""Scores of masked language models; the public functions are imported when first used.

Four measures, each in the files that its name begins:

- pseudo-perplexity: `pppl`, `pppl_sentences`; command `score-pppl`
- mean reciprocal rank: `mrr`, `mrr_targets`, `mrr_ranking`, `cloze`, `regression_gate`; command
  `score-mrr`
- masked-LM loss: `masked_lm_loss`, `masked_lm_sequences`; command `score-masking`
- embedding space: `embedding_space`, `space_*`; command `score-space`

They share `settings`, `predictor`, `checkpoint_predictor`, `evaluation`, `statistics` and `lines`.
"""

from bmtools.lazy import export

export(__name__, embedding_space="bmtools.scoring.embedding_space",
       masked_lm_loss="bmtools.scoring.masked_lm_loss", mrr="bmtools.scoring.mrr",
       pppl="bmtools.scoring.pppl")
