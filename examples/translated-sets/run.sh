#!/usr/bin/env bash
# Annotated English sets carried into Italian and Spanish, and taggers trained on them.
#
#   DATA=../shared/data examples/translated-sets/run.sh
#
# BC5CDR, NCBI-disease and BioASQ's factoids are translated by Apertium (Debian: apertium apertium-eng-cat
# apertium-cat-ita apertium-eng-spa), their entities and answers projected. A small Italian model is then
# fine-tuned on the Italian BC5CDR and NCBI-disease made here, and on those of BioBIT's authors (Google's
# translation), and both are tested on the authors' test set. MODEL is another model to start from, SEEDS are its
# seeds, PROJECTION more options for it, as --method align. What exists in OUT is kept, so a killed run can be continued.
set -euo pipefail
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/translated-sets/run.sh}
HERE=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$HERE/out}
mkdir -p "$OUT/sets"
step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS" >&2; }
missing() { [ ! -e "$OUT/$1" ]; }
carry() { # SET PART LANGUAGE OPTIONS...: what is lost, and why, is said in SET/PART.LANGUAGE.log
    local from=$OUT/sets/$1/$2.en.jsonl to=$OUT/sets/$1/$2.$3 lang=$3
    shift 3
    [ -e "$to.jsonl" ] && return
    # shellcheck disable=SC2086
    bmtools translate "$from" --project --source-lang en --target-lang "$lang" --engine apertium "$@" \
        ${PROJECTION:-} --resume -o "$to.jsonl" 2> "$to.log" || { tail -n 3 "$to.log" >&2; exit 1; }
}

step "English sets"
for set in BC5CDR NCBI-disease; do
    mkdir -p "$OUT/sets/$set"
    for part in train devel test; do
        missing "sets/$set/${part/devel/dev}.en.jsonl" &&
            bmtools import conll --lang en --default-type DISEASE "$DATA/en/ner/$set/$part.tsv" |
                sed -E 's/"type":"(Chemical|Disease)"/"type":"\U\1"/g' > "$OUT/sets/$set/${part/devel/dev}.en.jsonl"
    done
done
mkdir -p "$OUT/sets/BioASQ"
missing sets/BioASQ/train.en.jsonl &&
    bmtools import squad --lang en "$DATA/en/qa/bioasq/squad-answers.json" -o "$OUT/sets/BioASQ/train.en.jsonl"

step "Italian (by Catalan) and Spanish, with entities and answers"
for set in BC5CDR NCBI-disease; do
    for part in train dev test; do
        carry "$set" "$part" it --via ca
    done
    carry "$set" train es
done
carry BioASQ train it --via ca
carry BioASQ train es

step "The same sets as BioBIT's authors have them"
for pair in BC5CDR=BC5CDR_CDR NCBI-disease=NCBI_DISEASE; do
    set=${pair%=*} folder=$DATA/it/ner/${pair#*=}
    for part in train dev test; do
        missing "sets/$set/$part.authors.jsonl" &&
            bmtools import standoff --lang it --duplicates drop "$folder/${part}_corpus.txt" \
                --annotations "$folder/${part}_annotations.txt" -o "$OUT/sets/$set/$part.authors.jsonl"
    done
done
sed -i -E 's/"type":"[A-Z_]+"/"type":"DISEASE"/g' "$OUT"/sets/NCBI-disease/*.authors.jsonl

MODEL=${MODEL:-$OUT/model}
if [ ! -e "$MODEL" ]; then
    step "A small model of native Italian text, which neither version is part of"
    bmtools import jsonl --lang it "$DATA/it/corpus/native-clinical.jsonl" -o "$OUT/clinical.jsonl" --overwrite
    bmtools import jsonl --lang it "$DATA/it/corpus/native-leaflets.jsonl.gz" -o "$OUT/leaflets.jsonl" --overwrite
    missing vocabulary &&
        bmtools build-vocab "$OUT/clinical.jsonl" "$OUT/leaflets.jsonl" --uncased --size 10000 -o "$OUT/vocabulary"
    bmtools pretrain "$OUT/clinical.jsonl" "$OUT/leaflets.jsonl" -o "$MODEL" --resume --tokenizer "$OUT/vocabulary" \
        --architecture bert-4x256 --phases "$HERE/../biobit-tasks/pretraining.toml" ${PRETRAINING:-} > "$OUT/pretraining.jsonl"
fi

step "Taggers"
for set in BC5CDR NCBI-disease; do
    for seed in ${SEEDS:-0 1 2}; do
        for version in it authors; do
            found=$OUT/predictions/$set-$version-$seed.jsonl
            [ -e "$found" ] && continue
            rm -rf "$OUT/tagger"
            bmtools finetune ner --model "$MODEL" -o "$OUT/tagger" --seed-list "$seed" \
                --train "$OUT/sets/$set/train.$version.jsonl" --dev "$OUT/sets/$set/dev.$version.jsonl" \
                --epochs 4 --batch-size 32 --learning-rate 5e-4 --max-length 128 > "$OUT/finetuning.log"
            bmtools predict "$OUT/sets/$set/test.it.jsonl" --model "$OUT/tagger" \
                -o "${found/-$version/-$version-on-it}" --overwrite
            bmtools predict "$OUT/sets/$set/test.authors.jsonl" --model "$OUT/tagger" -o "$found"
        done
    done
done

step "What was projected"
grep -H "annotations projected" "$OUT"/sets/*/*.log | sed "s|$OUT/sets/||" >&2

step "Scores"
for set in BC5CDR NCBI-disease; do
    for version in it authors; do
        for seed in ${SEEDS:-0 1 2}; do
            echo "$version=$OUT/predictions/$set-$version-$seed.jsonl"
        done
    done | xargs bmtools score-tasks "$OUT/sets/$set/test.authors.jsonl" --overwrite -o "$OUT/$set.jsonl"
    cat "$OUT/$set.jsonl"
done
