#!/usr/bin/env bash
# From English abstracts to a scored and fine-tuned Italian model, in a few minutes on two cores.
# Every line is a plain bmtools command. Copy the lines one by one, or run them all:
#
#   examples/quickstart/run.sh            # OUT=somewhere to write elsewhere
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$HERE/out}
rm -rf "$OUT"
mkdir -p "$OUT"
cd "$OUT"
# float32 everywhere, as in docs/results.md; by default each machine uses the precision in which it is fast
export BMTOOLS_{PRETRAIN,DISTILL,FINETUNE_NER}_PRECISION=no

echo "== 1. Import abstracts from PubMed's XML, and translate them to Italian" >&2
bmtools import pubmed "$HERE/abstracts.xml" |
    bmtools translate --engine memory --memory "$HERE/memory.tsv" --source-lang en --target-lang it \
        -o corpus.jsonl

echo "== 2. Data for scoring and fine-tuning" >&2
bmtools import curated "$HERE/curated.json" --lang it -o curated.jsonl
for part in train dev test; do
    bmtools import conll "$HERE/entities-$part.tsv" --lang it -o "$part.jsonl"
done

echo "== 3. A first model, with a small vocabulary" >&2
bmtools build-vocab corpus.jsonl --uncased --size 500 -o first-vocabulary
bmtools pretrain corpus.jsonl --architecture bert-2x128 --tokenizer first-vocabulary -o first \
    --max-length 64 --batch-size 16 --steps 200 --learning-rate 2e-3 --set dropout=0.1

echo "== 4. A larger vocabulary, whose new tokens start from the first model's embeddings" >&2
bmtools build-vocab corpus.jsonl --uncased --size 1500 -o vocabulary
bmtools init-weights corpus.jsonl --base first --tokenizer vocabulary --method contextual \
    --rescale -o initialised

echo "== 5. Pretraining: causal first, then masked words" >&2
bmtools pretrain corpus.jsonl --model initialised -o causal --objective causal \
    --max-length 64 --batch-size 16 --steps 200 --learning-rate 2e-3 --set dropout=0.2
bmtools pretrain corpus.jsonl --model causal -o pretrained --mask-rate 0.25 \
    --max-length 64 --batch-size 16 --steps 1200 --learning-rate 1e-3 --set dropout=0.1

echo "== 6. A smaller model learns from it" >&2
bmtools distill corpus.jsonl --teacher pretrained --architecture bert-1x128 -o distilled \
    --max-length 64 --batch-size 16 --steps 1500 --learning-rate 2e-3 --mask-rate 0.25

echo "== 7. Every model is fine-tuned to find diseases and drugs" >&2
for model in first initialised pretrained distilled; do
    bmtools finetune ner --model $model --train train.jsonl --dev dev.jsonl \
        --test test.jsonl --seeds 2 --epochs 10 --learning-rate 2e-3 -o tagger-$model \
        --max-length 64
done > ner.jsonl
bmtools predict test.jsonl --model tagger-pretrained -o predicted.jsonl

echo "== 8. Pseudo-perplexity on unseen sentences, reciprocal rank on curated ones" >&2
bmtools score-pppl dev.jsonl test.jsonl --baseline corpus.jsonl -o pppl.jsonl \
    --model first --model initialised --model pretrained --model distilled
bmtools score-mrr curated.jsonl --baseline corpus.jsonl --details mrr-words.jsonl -o mrr.jsonl \
    --model first --model initialised --model pretrained --model distilled

bmtools table pppl.jsonl mrr.jsonl ner.jsonl --columns pppl,bits_per_character,mrr,test_f1.mean \
    --title "Before and after each step (distilled: the second digit depends on the processor)"
echo "Open $OUT/mrr-words.jsonl, predicted.jsonl or pretrained/bmtools.json for more." >&2
