#!/usr/bin/env bash
# The laptop speedrun: the best Italian clinical cloze score after 30 minutes on two cores.
#
#   DATA=../shared/data examples/speedrun/run.sh
#   TRIALS="hand adamw muon" SEEDS=0 MINUTES=6 DATA=... examples/speedrun/run.sh
#   TRIALS="content adamw" SEEDS=0 TOKENS=3000000 THREADS=1 DATA=... examples/speedrun/run.sh
#
# Models are trained only on the Italian text in DATA, without pretrained weights, other text or other
# languages. The score is the mean reciprocal rank over the 897 maskings of BioBIT's 54 sentences, which
# are removed from the text (clean.py). A word that the vocabulary splits counts 0. trials.toml contains the
# trials. trial.py defines training time, and adapts the number of tokens to this machine. No other programs
# should run on it at the same time.
#
# Existing results are skipped, so a killed run can be continued. OUT/trials.jsonl contains a line for every
# trial and seed, OUT/results.jsonl the means, and OUT/ceilings.jsonl the ceilings of vocabularies.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
export DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/speedrun/run.sh}
export OUT=${OUT:-$HERE/out}
TRIALS=${TRIALS:-laptop}
SEEDS=${SEEDS:-0 1 2}
MINUTES=${MINUTES:-30}
TOKENS=${TOKENS:-}              # tokens of each trial, instead of minutes
THREADS=${THREADS:-2}
PROBE_TOKENS=${PROBE_TOKENS:-300000}
VOCABULARIES=${VOCABULARIES:-8000 12000 16000 24000 32000}  # for the ceilings
mkdir -p "$OUT"
missing() { [ ! -e "$OUT/$1" ]; }

"$HERE/prepare.sh"
TEXT=("$OUT"/text/{clinical,leaflets,general,encyclopedia,translated}.jsonl)

echo "== Ceilings of vocabularies ($SECONDS s)" >&2
if missing ceilings.jsonl; then
    tokenizers=()
    missing vocabularies/pieces-2000 && bmtools build-vocab "${TEXT[@]}" --uncased --size 2000 --allow-fewer \
        -o "$OUT/vocabularies/pieces-2000"
    for size in $VOCABULARIES; do
        missing "vocabularies/pieces-$size" && bmtools build-vocab "${TEXT[@]}" --uncased \
            --size "$size" --allow-fewer -o "$OUT/vocabularies/pieces-$size"
        missing "vocabularies/cased-$size" && bmtools build-vocab "${TEXT[@]}" \
            --size "$size" --allow-fewer -o "$OUT/vocabularies/cased-$size"
        missing "vocabularies/words-$size" && python "$HERE/vocabulary.py" "${TEXT[@]}" \
            --pieces "$OUT/vocabularies/pieces-2000" --words "$size" \
            -o "$OUT/vocabularies/words-$size"
        for kind in pieces cased words; do
            tokenizers+=(--tokenizer "$OUT/vocabularies/$kind-$size")
        done
    done > /dev/null
    python "$HERE/ceilings.py" "${TEXT[@]}" --test "$OUT/curated.jsonl" "${tokenizers[@]}" \
        > "$OUT/ceilings.partial"
    mv "$OUT/ceilings.partial" "$OUT/ceilings.jsonl"
fi

echo "== A baseline of counts ($SECONDS s)" >&2
missing counts.jsonl && python "$HERE/counts.py" "${TEXT[@]}" --test "$OUT/curated.jsonl" \
    > "$OUT/counts.partial" && mv "$OUT/counts.partial" "$OUT/counts.jsonl"

length=(--minutes "$MINUTES")
[ -n "$TOKENS" ] && length=(--tokens "$TOKENS")
for seed in $SEEDS; do
    for trial in $TRIALS; do
        echo "== $trial, seed $seed, ${length[*]} ($SECONDS s)" >&2
        python "$HERE/trial.py" "$trial" --out "$OUT" --seed "$seed" "${length[@]}" \
            --threads "$THREADS" --probe-tokens "$PROBE_TOKENS"
    done
done

if missing frequencies.jsonl; then
    bmtools score-mrr "$OUT/curated.jsonl" --model "$OUT/runs/${TRIALS%% *}-${SEEDS%% *}/model" \
        --baseline <(cat "${TEXT[@]}") | tail -n 1 > "$OUT/frequencies.partial"
    mv "$OUT/frequencies.partial" "$OUT/frequencies.jsonl"
fi
python "$HERE/results.py" "$OUT" > "$OUT/results.jsonl"
bmtools table "$OUT/results.jsonl" --title "Mean reciprocal rank over 897 maskings" \
    --columns mrr.text,one_token.text,hits_at_1,seeds,tokens,seconds
