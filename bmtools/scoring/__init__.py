"""Scores of masked language models; the public functions are imported when first used.

There are four measures. The names of their files start with the measure:

- pseudo-perplexity: `pppl` and `pppl_sentences`, used by `score-pppl`
- mean reciprocal rank: `mrr`, `mrr_targets`, `mrr_ranking`, `cloze` and `regression_gate`, used by
  `score-mrr`
- masked-LM loss: `masked_lm_loss` and `masked_lm_sequences`, used by `score-masking`
- embedding space: `embedding_space` and `space_*`, used by `score-space`

They share `settings`, `predictor`, `checkpoint_predictor` and `evaluation`.
"""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.scoring.embedding_space import embedding_space as embedding_space
    from bmtools.scoring.masked_lm_loss import masked_lm_loss as masked_lm_loss
    from bmtools.scoring.mrr import mrr as mrr
    from bmtools.scoring.pppl import pppl as pppl

export(__name__, embedding_space="bmtools.scoring.embedding_space",
       masked_lm_loss="bmtools.scoring.masked_lm_loss", mrr="bmtools.scoring.mrr",
       pppl="bmtools.scoring.pppl")
