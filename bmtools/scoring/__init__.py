"""Scores of masked language models; the public functions are imported when first used.

Four measures, each in the files that its name begins:

- pseudo-perplexity: `pppl`, `pppl_sentences`, `pll_masking`; command `score-pppl`
- mean reciprocal rank: `mrr`, `mrr_words`, `mrr_targets`, `mrr_ranking`, `mrr_collector`,
  `cloze`, `regression_gate`; command `score-mrr`
- masked-LM loss: `masked_lm_*`; command `score-masking`
- embedding space: `embedding_space`, `space_*`; command `score-space`

The first two share `evaluation`, `predictor`, `checkpoint_predictor`, `unigram_predictor` and
`distributed`; all share `settings`, `statistics`, `comparison`, `groups` and `signature`.
"""

from bmtools.lazy import export

export(__name__, embedding_space="bmtools.scoring.embedding_space",
       masked_lm_loss="bmtools.scoring.masked_lm_loss", mrr="bmtools.scoring.mrr",
       pppl="bmtools.scoring.pppl")
