#!/usr/bin/env bash
# What half an hour of pretraining on a laptop is worth: biomedical tasks, two starts, three seeds.
#
#   DATA=../shared/data examples/blurb/run.sh
#
# 1. A BERT of 4 layers of 256 is pretrained on the abstracts of 11 drug reviews (22 million tokens).
# 2. It, and the same architecture with random weights, are fine-tuned on every set of DATA that has a
#    section in experiments.toml; variants (how pairs are told to the model, schemes of tags, heads) from it alone.
# 3. Their predictions are compared with each other and with a baseline without a model.
#
# two_starts.sh has its variables, prepare.sh has RECORDS. OUT/scores/ has what score-tasks prints of each set,
# OUT/suite.jsonl all sets side by side.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
export DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/blurb/run.sh}
export OUT=${OUT:-$HERE/out}
mkdir -p "$OUT"

[ -e "$OUT/reviews.jsonl" ] || bmtools import jsonl --lang en --duplicates drop \
    "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz" -o "$OUT/reviews.jsonl"
"$HERE/prepare.sh"
exec "$HERE/two_starts.sh" "$HERE" "$OUT/reviews.jsonl"
