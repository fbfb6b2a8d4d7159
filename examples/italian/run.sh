#!/usr/bin/env bash
# From English abstracts to a scored and fine-tuned Italian model, on real data, two cores.
#
#   DATA=../shared/data examples/italian/run.sh
#
# It needs Apertium (Debian: apertium apertium-eng-cat apertium-cat-ita). OUT is the output
# folder. Steps whose result exists are skipped, so a killed run can be continued.
# BMTOOLS_POWER_WATTS and BMTOOLS_COUNTRY declare the machine's power and grid (docs/energy.md).
set -euo pipefail
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/italian/run.sh}
OUT=${OUT:-$(dirname "$0")/out}
SEED=${SEED:-0}
ABOUT=${ABOUT:-$(dirname "$0")/about.toml}    # facts for the cards that only people can state
mkdir -p "$OUT"
export BMTOOLS_PRETRAIN_SEED=$SEED BMTOOLS_DISTILL_SEED=$SEED BMTOOLS_FINETUNE_NER_SEED=$SEED
export BMTOOLS_{PRETRAIN,DISTILL,FINETUNE_NER}_PRECISION=no    # float32, as in docs/results.md

step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS" >&2; }
missing() { [ ! -e "$OUT/$1" ]; }

step "English: MEDLINE records and drug reviews"
missing medline.jsonl &&
    bmtools import pubmed --duplicates drop --licence "NLM and publishers" -o "$OUT/medline.jsonl" \
        "$DATA"/en/pubmed-xml/medline16n0902.xml.gz "$DATA"/en/pubmed-xml/pubmed15-bom.xml \
        "$DATA"/en/pubmed-xml/pubmed24-sample.xml.gz
missing reviews.jsonl &&
    bmtools import jsonl --lang en --duplicates drop --licence "NLM and publishers" \
        "$DATA"/en/corpus/pubmed-drug-reviews.jsonl.gz |
        bmtools sample --records 1500 --allow-fewer -o "$OUT/reviews.jsonl"

step "Italian: Apertium, English to Catalan to Italian"
missing translated.jsonl &&
    bmtools translate --engine apertium --source-lang en --via ca --target-lang it \
        "$OUT/medline.jsonl" "$OUT/reviews.jsonl" -o "$OUT/translated.jsonl"

step "Italian: the task texts that others translated, without the test documents"
TASKS=()
task() {  # NAME COMMAND...: keep each text of a set once
    TASKS+=("$OUT/$1.jsonl")
    missing "$1.jsonl" || return 0
    bmtools import "${@:2}" --lang it --duplicates drop --source "$1" |
        bmtools dedup --duplicates exact -o "$OUT/$1.jsonl"
}
for set in BC5CDR_CDR NCBI_DISEASE SPECIES_800; do
    task "$set" standoff "$DATA/it/ner/$set/train_corpus.txt" \
        --annotations "$DATA/it/ner/$set/train_annotations.txt"
done
task BIORED biored "$DATA/it/re/BIORED/train_CORPUS.json" --rejects /dev/null \
    --entities "$DATA/it/re/BIORED/train_ANN.txt" --relations "$DATA/it/re/BIORED/train_REL.txt"
task CHEMPROT chemprot "$DATA/it/re/CHEMPROT/train_CORPUS.json" --rejects /dev/null \
    --entities "$DATA/it/re/CHEMPROT/train_ANN.txt" --relations "$DATA/it/re/CHEMPROT/train_REL.txt"
task BioASQ biobit-qa "$DATA/it/qa/BioASQ_5b_splitted.json" --split train

step "Italian: native clinical text, the quality corpus, and general text"
missing native.jsonl &&
    bmtools import jsonl --lang it "$DATA/it/corpus/native-clinical.jsonl" -o "$OUT/native.jsonl"
missing general.jsonl &&
    bmtools import text --lang it --licence CC-BY-NC-SA-4.0 "$DATA/it/corpus/general-ud.txt" \
        -o "$OUT/general.jsonl"

MEDICAL=("$OUT/translated.jsonl" "${TASKS[@]}" "$OUT/native.jsonl")

step "A general base model: its own vocabulary, causal first, then masked words"
missing general-vocabulary &&
    bmtools build-vocab "$OUT/general.jsonl" --uncased --size 6000 -o "$OUT/general-vocabulary"
missing base-causal &&
    bmtools pretrain "$OUT/general.jsonl" -o "$OUT/base-causal" --resume \
        --architecture bert-4x256 --tokenizer "$OUT/general-vocabulary" \
        --objective causal --max-length 64 --steps 500 --learning-rate 2e-3
missing base &&
    bmtools pretrain "$OUT/general.jsonl" -o "$OUT/base" --resume --model "$OUT/base-causal" \
        --max-length 64 --steps 400 --learning-rate 1e-3

step "A medical vocabulary, and initial weights for its tokens"
missing vocabulary &&
    bmtools build-vocab "${MEDICAL[@]}" --uncased --size 8000 -o "$OUT/vocabulary"
missing initialised &&
    bmtools init-weights "${MEDICAL[@]}" --base "$OUT/base" --tokenizer "$OUT/vocabulary" --lang it \
        --method contextual --rescale -o "$OUT/initialised"

step "Continued pretraining: causal for two thirds of the time, then masked words"
missing medical-causal &&
    bmtools pretrain "${MEDICAL[@]}" -o "$OUT/medical-causal" --resume --model "$OUT/initialised" \
        --objective causal --max-length 64 --steps 1200 --learning-rate 2e-3
missing medical &&
    bmtools pretrain "${MEDICAL[@]}" -o "$OUT/medical" --resume --model "$OUT/medical-causal" \
        --max-length 64 --steps 1200 --learning-rate 1.5e-3 --mask-rate 0.2

step "A student of two layers of 128: pretrained, then distilled from the medical model"
missing student-causal &&
    bmtools pretrain "${MEDICAL[@]}" -o "$OUT/student-causal" --resume --architecture bert-2x128 \
        --tokenizer "$OUT/vocabulary" --objective causal --max-length 64 --steps 800 \
        --learning-rate 3e-3
missing student &&
    bmtools distill "${MEDICAL[@]}" -o "$OUT/student" --resume --teacher "$OUT/medical" \
        --student "$OUT/student-causal" --max-length 64 --steps 800 --learning-rate 2e-3

step "Mean reciprocal rank on the curated sentences"
missing curated.jsonl &&
    bmtools import curated "$DATA/it/mrr/mlm_data.json" -o "$OUT/curated.jsonl"
bmtools score-mrr "$OUT/curated.jsonl" --details "$OUT/mrr-details.jsonl" -o "$OUT/mrr.jsonl" \
    --overwrite --model "$OUT/base" --model "$OUT/initialised" --model "$OUT/medical" \
    --model "$OUT/student" --baseline "$OUT/native.jsonl"

step "Pseudo-perplexity and named entities: the Italian NCBI disease corpus, three seeds"
for part in train dev test; do
    missing "ncbi-$part.jsonl" &&
        bmtools import standoff --lang it --duplicates drop -o "$OUT/ncbi-$part.jsonl" \
            "$DATA/it/ner/NCBI_DISEASE/${part}_corpus.txt" \
            --annotations "$DATA/it/ner/NCBI_DISEASE/${part}_annotations.txt"
done
missing ncbi-sentences.jsonl &&
    bmtools import jsonl "$OUT/ncbi-test.jsonl" --sentences -o "$OUT/ncbi-sentences.jsonl"
bmtools score-pppl "$OUT/ncbi-sentences.jsonl" -o "$OUT/pppl.jsonl" \
    --overwrite --model "$OUT/base" --model "$OUT/initialised" --model "$OUT/medical" \
    --model "$OUT/student" --baseline "$OUT/native.jsonl"
missing tagger &&
    bmtools finetune ner --model "$OUT/medical" -o "$OUT/tagger" --merge-types DISEASE \
        --train "$OUT/ncbi-train.jsonl" --dev "$OUT/ncbi-dev.jsonl" \
        --test "$OUT/ncbi-test.jsonl" --seeds 3 --epochs 4 --patience 2 --max-length 128 \
        --batch-size 16 --learning-rate 1e-3 | tee "$OUT/ner.jsonl"
bmtools predict --model "$OUT/tagger" "$OUT/ncbi-test.jsonl" --overwrite \
    -o "$OUT/ncbi-predicted.jsonl"

step "What was made of what; the cards, the bills of materials, one page"
bmtools lineage "$OUT/tagger" "$OUT/mrr.jsonl" --search "$DATA/en" --search "$DATA/it" --overwrite \
    -o "$OUT/lineage.txt"
for model in base-causal base initialised medical-causal medical student-causal student tagger; do
    SCORES=()    # the record of a tagger contains its scores
    case $model in base | initialised | medical | student)
        SCORES=(--scores curated="$OUT/mrr.jsonl" --scores ncbi-test="$OUT/pppl.jsonl") ;;
    esac
    bmtools card "$OUT/$model" "${SCORES[@]}" --about "$ABOUT" --search "$DATA/en" --search "$DATA/it" \
        --bom "$OUT/$model.cdx.json" --overwrite -o "$OUT/$model/README.md"
done
bmtools report "$OUT" -o "$OUT/report.html" --overwrite

step "Done"
cat "$OUT/mrr.jsonl" "$OUT/ner.jsonl"
