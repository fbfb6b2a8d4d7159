#!/usr/bin/env bash
# The same small BERT trained by bmtools and by transformers' Trainer: loss by tokens and by seconds.
#
#   DATA=../shared/data examples/reproduce/trainer-curve/run.sh
#
# bert-mini (4 layers of width 256, BERT's vocabulary) trains on abstracts of drug reviews three times:
#
#   trainer  transformers' Trainer with the collator and the sequences of run_mlm: concatenated
#            documents, cut into sequences of 128
#   bmtools  `bmtools pretrain` from the same initial weights as Trainer; a sequence contains
#            one document, so steps have fewer tokens and there are more steps
#   default  `bmtools pretrain --architecture bert-mini`, with its own initial weights (sinusoidal positions)
#
# All three have the same number of tokens, batch size, peak learning rate, schedule, dropout, AdamW and clipping.
# They mask 15 percent of tokens (not whole words), 80/10/10. `bmtools score-pppl` scores held-out abstracts.
#
# TOKENS=1_500_000 takes about 15 minutes on two cores. Existing results are skipped.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/reproduce/trainer-curve/run.sh}
OUT=${OUT:-$HERE/out}
TOKENS=${TOKENS:-1500000}
ARCHITECTURE=${ARCHITECTURE:-bert-mini}
EVERY=${EVERY:-10}              # steps between points of a curve
HELD_OUT=${HELD_OUT:-8}         # abstracts to score
SEED=${SEED:-0}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
export BMTOOLS_PRETRAIN_PRECISION=no    # float32, as for the published values
mkdir -p "$OUT"
missing() { [ ! -e "$OUT/$1" ]; }

if missing train.jsonl; then
    bmtools import jsonl --lang en --duplicates drop -o "$OUT/all.jsonl" \
        "$DATA/en/corpus/pubmed-drug-reviews.jsonl.gz"
    head -n "$HELD_OUT" "$OUT/all.jsonl" | bmtools import jsonl --sentences -o "$OUT/held-out.jsonl"
    tail -n +"$((HELD_OUT + 1))" "$OUT/all.jsonl" > "$OUT/train.partial"
    mv "$OUT/train.partial" "$OUT/train.jsonl"
fi
missing vocabulary && python "$HERE/trainer.py" vocabulary "$DATA/vocab/bert-base-uncased.txt" \
    "$OUT/vocabulary"
missing start && python "$HERE/trainer.py" start "$OUT/vocabulary" "$OUT/start" \
    --architecture "$ARCHITECTURE" --seed "$SEED"

echo "== Trainer ($SECONDS s)" >&2
missing trainer && python "$HERE/trainer.py" train "$OUT/train.jsonl" "$OUT/trainer" \
    --model "$OUT/start" --tokens "$TOKENS" --every "$EVERY" --seed "$SEED"

bmtools_run() {  # NAME OPTION...
    local name=$1; shift
    echo "== $name ($SECONDS s)" >&2
    missing "$name" || return 0
    bmtools pretrain "$OUT/train.jsonl" -o "$OUT/$name" --resume --seed "$SEED" \
        --tokens "$TOKENS" --max-length 128 --batch-size 32 --masking tokens --mask-rate 0.15 \
        --learning-rate 5e-4 --set schedule=linear --set warmup_ratio=0.1 --set dropout=0.1 \
        --set weight_decay=0 --set adam_epsilon=1e-8 --set logging_steps="$EVERY" "$@" > "$OUT/$name.log"
}
bmtools_run bmtools --model "$OUT/start"
bmtools_run default --architecture "$ARCHITECTURE" --tokenizer "$OUT/vocabulary"

missing pppl.jsonl && bmtools score-pppl "$OUT/held-out.jsonl" -o "$OUT/pppl.jsonl" \
    --model "$OUT/trainer" --model "$OUT/bmtools" --model "$OUT/default"
python "$HERE/curves.py" "$OUT"
bmtools table "$OUT/results.jsonl" --columns tokens,loss,seconds,tokens_per_second,pppl \
    --title "Loss: mean over the last tenth of the tokens, in nats per masked token"
