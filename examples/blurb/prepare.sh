#!/usr/bin/env bash
# The field's files in DATA to OUT/sets/SET/{train,dev,test}.jsonl. What is there is kept.
#
# RECORDS sentences (questions, pairs of sentences) of a training set are drawn, and a third as many of a
# development set, so that all of it takes an afternoon on a laptop; RECORDS=0 takes all. Test sets are whole.
set -euo pipefail
DATA=${DATA:?set it to the data folder: DATA=../shared/data examples/blurb/prepare.sh}
OUT=${OUT:-$(cd "$(dirname "$0")" && pwd)/out}
RECORDS=${RECORDS:-1500}
mkdir -p "$OUT/whole" "$OUT/sets"
exec 3>&2 2>> "$OUT/prepare.log"
fail() { tail -n 3 "$OUT/prepare.log" >&3; }
trap fail ERR
missing() { [ ! -e "$OUT/sets/$1" ]; }
import() { bmtools import "$@" --lang en; }

# parts SET TRAIN DEV TEST: the three files of a set, the first two down to size.
parts() {
    local folder=$OUT/sets/$1.partial
    rm -rf "$folder"
    mkdir "$folder"
    draw "$RECORDS" < "$2" > "$folder/train.jsonl"
    draw "$((RECORDS / 3))" < "$3" > "$folder/dev.jsonl"
    cp "$4" "$folder/test.jsonl"
    mv "$folder" "$OUT/sets/$1"
}
draw() {
    if [ "$1" = 0 ]; then cat; else shuf -n "$1" --random-source=<(yes); fi
}
# divide NAME RATIOS [OPTIONS]: OUT/whole/NAME.jsonl into OUT/whole/NAME/{train,dev,test}.jsonl
# Equal texts of several documents are not kept together, as in the parts behind docs/results.md.
divide() { bmtools split "$OUT/whole/$1.jsonl" --ratios "$2" --together documents "${@:3}" -o "$OUT/whole/$1" --overwrite > /dev/null; }

cd "$OUT/whole"
for set in BC5CDR BC2GM NCBI-disease s800; do
    name=${set/s800/S800}
    missing "$name" || continue
    for part in train devel test; do
        import conll "$DATA/en/ner/$set/$part.tsv" -o "$name-$part.jsonl" --overwrite
    done
    parts "$name" "$name"-{train,devel,test}.jsonl
done

if missing Linnaeus; then   # its training part is not at hand: most of the development part is
    import conll "$DATA/en/ner/linnaeus/devel.tsv" -o Linnaeus.jsonl --overwrite
    import conll "$DATA/en/ner/linnaeus/test.tsv" -o Linnaeus-test.jsonl --overwrite
    divide Linnaeus 0.8,0.2,0 --stratify entities
    parts Linnaeus Linnaeus/{train,dev}.jsonl Linnaeus-test.jsonl
fi

if missing EBM-PICO; then   # likewise
    import conll "$DATA/en/pico/EBM-NLP/dev.txt" -o EBM-PICO.jsonl --overwrite
    import conll "$DATA/en/pico/EBM-NLP/test.txt" -o EBM-PICO-test.jsonl --overwrite
    divide EBM-PICO 0.8,0.2,0
    parts EBM-PICO EBM-PICO/{train,dev}.jsonl EBM-PICO-test.jsonl
fi

if missing ChemProt; then   # SciBERT's sentences, each with one related pair: 13 types, none of them "false"
    for part in train dev test; do
        import chemprot "$DATA/en/re/chemprot/$part.txt" -o "ChemProt-$part.jsonl" --overwrite
    done
    parts ChemProt ChemProt-{train,dev,test}.jsonl
fi

if missing DDI; then
    zip=$DATA/en/re/DDI-2013/DDICorpus-2013.zip/DDICorpus
    import ddi "$zip/Train" -o DDI.jsonl --overwrite
    import ddi "$zip/Test/Test for DDI Extraction task" -o DDI-test.jsonl --overwrite
    divide DDI 0.85,0.15,0
    parts DDI DDI/{train,dev}.jsonl DDI-test.jsonl
fi

if missing GAD; then        # fold 1 of BioBERT's ten
    import gad "$DATA/en/re/GAD/train.tsv" -o GAD.jsonl --overwrite
    import gad "$DATA/en/re/GAD/test.tsv" -o GAD-test.jsonl --overwrite
    divide GAD 0.9,0.1,0 --stratify label
    parts GAD GAD/{train,dev}.jsonl GAD-test.jsonl
fi

if missing BIOSSES; then    # 64, 16 and 20 pairs, as many as BLURB has
    import biosses "$DATA/en/sts/BIOSSES/biosses.tsv" -o BIOSSES.jsonl --overwrite
    divide BIOSSES 0.64,0.16,0.2
    parts BIOSSES BIOSSES/{train,dev,test}.jsonl
fi

if missing HoC; then        # 1,295, 186 and 371 abstracts, as many as BLURB has
    import hoc "$DATA/en/cls/HoC/hoc-original.tar.gz" --documents -o HoC.jsonl --overwrite
    divide HoC 0.7,0.1,0.2 --stratify labels
    parts HoC HoC/{train,dev,test}.jsonl
fi

if missing PubMedQA; then
    questions=$DATA/en/qa/pubmedqa
    import pubmedqa "$questions/ori_pqal.json" --ids "$questions/test_ground_truth.json" -o PubMedQA-test.jsonl --overwrite
    import pubmedqa "$questions/ori_pqal.json" -o PubMedQA-all.jsonl --overwrite
    python3 - <<'PY'
import json

test = {json.loads(line)["id"] for line in open("PubMedQA-test.jsonl", encoding="utf-8")}
with open("PubMedQA.jsonl", "w", encoding="utf-8") as rest:
    rest.writelines(line for line in open("PubMedQA-all.jsonl", encoding="utf-8")
                    if json.loads(line)["id"] not in test)
PY
    divide PubMedQA 0.9,0.1,0 --stratify label
    parts PubMedQA PubMedQA/{train,dev}.jsonl PubMedQA-test.jsonl
fi

if missing BioASQ; then     # yes/no questions with their ideal answers
    import bioasq-yesno "$DATA/en/qa/bioasq/yesno/train.tsv" -o BioASQ.jsonl --overwrite
    import bioasq-yesno "$DATA/en/qa/bioasq/yesno/test.tsv" -o BioASQ-test.jsonl --overwrite
    divide BioASQ 0.9,0.1,0 --stratify label --together questions
    parts BioASQ BioASQ/{train,dev}.jsonl BioASQ-test.jsonl
fi
