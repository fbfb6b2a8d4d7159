#!/usr/bin/env bash
# Fragmentation of chemicals and diseases by vocabulary: table 3 of BioMegatron (Shin et al. 2020).
#
#   DATA=../shared/data examples/vocabulary/run.sh
#
# Vocabularies of three sizes are trained on abstracts of drug reviews. They are compared with the vocabularies
# of BERT and SciBERT and a biomedical vocabulary of 50,000 tokens, on all mentions in the training set of BC5CDR.
# The paper reports 3.01 pieces per word for chemicals and 2.42 for diseases with BERT's cased vocabulary, 1.65 and
# 1.24 with PubMedBERT's, and 1.48 and 1.12 with its own 50,000 tokens. Here the general vocabulary is BERT's
# uncased vocabulary, and all text is in lower case.
#
# It takes half a minute on two cores. OUT is the output folder. comparison.jsonl contains all results, including
# the terms that each vocabulary splits most. pieces.png shows them if matplotlib is installed.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/vocabulary/run.sh}
OUT=${OUT:-$HERE/out}
SIZES=${SIZES:-8000 16000 30000}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
mkdir -p "$OUT"
missing() { [ ! -e "$OUT/$1" ]; }

echo "== Abstracts to train on, entities to compare" >&2
missing reviews.jsonl && bmtools import jsonl --lang en --duplicates drop \
    "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz" -o "$OUT/reviews.jsonl"
missing bc5cdr.jsonl && bmtools import conll --lang en "$DATA/en/ner/BC5CDR/train.tsv" \
    -o "$OUT/bc5cdr.jsonl"

echo "== A vocabulary of each size ($SECONDS s)" >&2
vocabularies=(--vocab "BERT=$DATA/vocab/bert-base-uncased.txt"
              --vocab "SciBERT=$DATA/vocab/scibert-scivocab-uncased.txt"
              --vocab "COVID-ELECTRA=$DATA/vocab/covid-electra-50k-uncased.txt")
for size in $SIZES; do
    # The reviews support 29,541 tokens; --allow-fewer accepts these instead of 30,000.
    missing "reviews-$size" && bmtools build-vocab "$OUT/reviews.jsonl" --uncased --strip-accents \
        --size "$size" --allow-fewer -o "$OUT/reviews-$size" > /dev/null
    vocabularies+=(--vocab "reviews-$size=$OUT/reviews-$size")
done

echo "== The comparison ($SECONDS s)" >&2
plot=()
if python -c "import matplotlib" 2> /dev/null; then plot=(--plot "$OUT/pieces.png"); fi
bmtools compare-vocab "$OUT/bc5cdr.jsonl" "${vocabularies[@]}" "${plot[@]}" --table \
    -o "$OUT/comparison.jsonl"
