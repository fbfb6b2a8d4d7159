"""The table of docs/performance.md, from what benchmarks measured."""

from __future__ import annotations

from typing import Any

from report import table


def measured(name: str, params: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"name": f"{name}[{'-'.join(map(str, params.values()))}]", "params": params,
            "extra_info": info}


def ratio(median: float) -> dict[str, float]:
    return {"median": median, "lowest": median - 0.1, "highest": median + 0.1}


def lines(*benchmarks: dict[str, Any]) -> list[str]:
    machine = {"machine": "x86_64", "cpu": {"brand_raw": "A processor"},
               "versions": {"torch": "2.13.0"}}
    return table({"machine_info": machine, "datetime": "2026-11-21T10:00:00",
                  "benchmarks": benchmarks}).splitlines()


PRETRAIN = measured(
    "test_pretrain_against_trainer", {"architecture": "bert-4x256", "max_length": 128},
    architecture="bert-4x256", max_length=128, precision="no", threads=2, failures={},
    times_faster={"padded": {"trainer": ratio(2.81), "trainer without dropout": ratio(2.55)},
                  "packed": {"trainer": ratio(10.4), "trainer without dropout": ratio(2.64)}},
    sides={"padded": {"peak_megabytes": 1400}, "packed": {"peak_megabytes": 1500},
           "trainer": {"peak_megabytes": 2800}, "trainer without dropout": {}})


def test_pretraining_is_a_row_of_both_layouts() -> None:
    found = lines(PRETRAIN)
    assert found[0] == "A processor, 2 threads, torch 2.13.0, 2026-11-21"
    assert found[1] == ""
    assert found[2].split(" | ")[0] == "| what"
    assert found[4:] == [
        "| `pretrain`, BERT, 4 layers of 256, length 128 (padded / packed) | Trainer, documents "
        "end to end (`group_texts`) | 2.8 / 10 times; without dropout 2.5 / 2.6 | 0.50 / 0.54 |"]


def test_distillation_is_a_row_of_processor_time() -> None:
    [row] = lines(measured(
        "test_distill_against_a_plain_loop",
        {"student": "bert-3x384", "teacher": "bert-6x384", "positions": "masked"},
        times_faster={"float32": {"loop": {"processor": 1.83}},
                      "default": {"loop": {"processor": 4.21}}},
        sides={"float32": {"peak_megabytes": 1335}, "default": {"peak_megabytes": 1593},
               "loop": {"peak_megabytes": 3186}}))[4:]
    assert row == (
        "| `distill`, BERT, 3 layers of 384, taught by BERT, 6 layers of 384, KL at masked tokens "
        "(float32 / default) | a loop around transformers, in float32 | 1.8 / 4.2 times by "
        "processor time | 0.42 / 0.50 |")


def test_the_cache_is_a_share_of_the_engines_time() -> None:
    [row] = lines(measured("test_cost_of_the_cache", {}, times_faster=400.0, sentences=5000,
                           seconds=0.05, apertium_seconds=20.4, look_ups_per_second=64_321))[4:]
    assert row == ("| `translate --cache`, 5,000 new sentences, looked up and stored (64,321 "
                   "look-ups of known ones a second) | Apertium's 20 s for them | 0.2 % of its "
                   "time |  |")


def test_padded_peers_name_their_documents() -> None:
    one = {**PRETRAIN, "name": "test_pretrain_against_padded_documents[abstracts]",
           "params": {"kind": "abstracts"}}
    assert "length 128 (padded / packed), an abstract a document | Trainer, padded to 128" \
        in lines(one)[4]


def test_each_other_benchmark_is_a_row() -> None:
    found = lines(
        measured("test_pppl_against_minicons", {"layers": 4, "width": 256},
                 times_faster={"median": 4.2, "memory": 0.55}, vocabulary=30_000, sentences=200,
                 without_start={"exact": 4.7}),
        measured("test_mrr_against_fill_mask", {}, times_faster=5.2, memory=0.8, maskings=897,
                 seconds=31.2, bf16_seconds=20.4, bf16_times_faster=8.01),
        measured("test_tokenize_against_datasets", {}, times_faster=2.1, megabytes=21.4,
                 peak_megabytes=240, datasets_peak_megabytes=400),
        measured("test_words_against_transformers", {"length": 128}, times_faster=29.3,
                 times_faster_than_masking_alone=12.1),
        measured("test_build_vocab_against_the_library", {"kind": "bpe"}, times_faster=1.25,
                 megabytes=12.6, peak_megabytes=330, library_peak_megabytes=110),
        measured("test_contexts_against_pyahocorasick", {}, times_faster=2.1, words=10_000,
                 megabytes=192.0, times_faster_than_matching_alone=4.9,
                 peak_megabytes={"pyahocorasick": 50, "matching": 70, "sampling": 105}),
        measured("test_clean_against_a_script", {}, times_faster=8.2, megabytes=20.4,
                 megabytes_per_second={"script": 1.7, "bmtools": 13.9,
                                       "without language and Unicode": 21.2}),
        measured("test_contexts_against_plain_batches",
                 {"layers": 4, "width": 256, "beside": "32 in file order"}, times_faster=2.3),
        measured("test_encoder_per_token", {"family": "bert", "layers": 4, "width": 256},
                 times_faster=1.75, microseconds_per_token=12.3),
        measured("test_score_pppl_with_and_without_fast_encoder", {},
                 times_faster={"median": 1.4, "memory": 0.9}, layers=4, width=256, sentences=100,
                 seconds=4.56),
        measured("test_of_something_new", {"size": 3}, times_faster=1.5),
        measured("test_that_compares_nothing", {}, tokens=5))
    assert found[4:] == [
        "| `score-pppl`, 4 layers of 256, vocabulary of 30,000, 200 sentences | minicons | "
        "4.2 times; without start-up 4.7 | 0.55 |",
        "| `score-mrr`, 12 layers of 768, 897 maskings in 31 s (bf16 20 s) | the fill-mask "
        "pipeline | 5.2 times (8.0) | 0.80 |",
        "| `tokenize`, 21 MB on one core | `datasets.map` | 2.1 times | 0.60 |",
        "| whole-word masking, length 128 | transformers' collator | 29 times; its masking "
        "alone 12 |  |",
        "| `build-vocab --tokenizer-type bpe`, 13 MB | the bare library | 1.2 times | 3.0 |",
        "| `find-contexts`, 10,000 words, 192 MB, one process | pyahocorasick, which samples "
        "nothing | 2.1 times; without sampling 4.9 | 2.1 |",
        "| `clean` with all repairs, lengths, shares and language, 20 MB, 14 MB/s a core (without "
        "language and Unicode 21) | a script with ftfy and py3langid on whole texts, 1.7 MB/s | "
        "8.2 times |  |",
        "| `init-weights --method contextual`, 4 layers of 256 | batches of 32 in file order | "
        "2.3 times |  |",
        "| fast encoder, bert, 4 layers of 256: 12 microseconds per token on one thread | "
        "transformers' encoder | 1.8 times |  |",
        "| `score-pppl`, 4 layers of 256, 100 sentences in 4.6 s | the same with transformers' "
        "encoder | 1.4 times | 0.90 |",
        "| size 3 |  | 1.5 times |  |"]


def test_a_gpu_reports_its_share_of_the_peak_and_hours_of_published_runs() -> None:
    one = {**PRETRAIN, "name": "test_pretrain_on_a_gpu[bert-base-512]"}
    one["extra_info"] = {
        **PRETRAIN["extra_info"], "architecture": "bert-base", "max_length": 512,
        "precision": "bf16", "gpu": "NVIDIA H100 80GB HBM3", "real_text": False,
        "share_of_peak": {"padded": 0.41, "packed": None}, "gpu_hours": {"a run": 1234.5},
        "sides": {**PRETRAIN["extra_info"]["sides"],
                  "padded": {"peak_megabytes": 1400, "tokens_per_second": 500_000},
                  "packed": {"peak_megabytes": 1500, "tokens_per_second": 600_000}}}
    found = lines(one)
    assert found[0].startswith("NVIDIA H100 80GB HBM3, 2 threads")
    assert "| `pretrain`, bert-base, length 512, bf16 (padded / packed) |" in found[4]
    assert found[5:] == [
        "", "bert-base, length 512: padded 500,000 tokens/s, 41% of the peak; packed 600,000 "
        "tokens/s, peak unknown (made-up text)", "a run: 1,234.5 GPU-hours"]


def test_the_default_stands_beside_each_precision_with_its_share_of_the_machine() -> None:
    one = {**PRETRAIN, "name": "test_pretrain_by_precision[bert-4x256-4000]"}
    one["extra_info"] = {
        **PRETRAIN["extra_info"], "precision": "auto", "default": "bf16",
        "times_faster": {
            "default": {"trainer": ratio(13.2), "trainer bf16": ratio(10.1)},
            "float32": {"trainer": ratio(5.6), "trainer bf16": ratio(4.1)},
            "bf16": {"trainer": ratio(13.1), "trainer bf16": ratio(9.4)}},
        "sides": {"default": {"peak_megabytes": 1400}, "trainer": {"peak_megabytes": 2800}},
        "matrix_share": {"float32": {"gigaflops": 185, "bmtools": 0.812, "trainer": 0.15},
                         "bf16": {"gigaflops": 1812, "bmtools": 0.6, "trainer": 0.07}}}
    found = lines(one)
    assert found[4:] == [
        "| `pretrain`, BERT, 4 layers of 256, length 128, as it is by default (here bf16) | "
        "Trainer as `run_mlm` is by default (float32) | 13 times; float32 on both sides 5.6; bf16 "
        "on both sides 9.4 | 0.50 |", "",
        "BERT, 4 layers of 256, length 128, share of the speed of a large matrix product: float32 "
        "81% of 185 GFLOP/s (Trainer 15%); bf16 60% of 1,812 GFLOP/s (Trainer 7%)"]
    del one["extra_info"]["times_faster"]["bf16"], one["extra_info"]["matrix_share"]["bf16"]
    assert "| 13 times; float32 on both sides 5.6 |" in lines(one)[4]


def test_races_of_tasks_are_rows_with_bf16_in_brackets() -> None:
    half = {"bf16": {**ratio(4.0), "memory": 0.7}}
    sides = {"seconds": {"trainer": 41.0, "bmtools": 18.2}, "records": 2400}
    own = {"times_faster": {**ratio(2.25), "memory": 0.8}}
    params = {"task": "ner", "layers": 4, "width": 256, "records": 2000, "epochs": 2}
    found = lines(
        measured("test_finetune_against_trainer", params, epochs=2, grouped=ratio(1.6),
                 **sides, **own, **half),
        measured("test_predict_against_pipeline", params, batch_size=8, **sides, **own))
    assert found[4:] == [
        "| `finetune ner`, 4 x 256, 2,400 records, 2 epochs in 18 s | Trainer; its batches grouped "
        "by length 1.6 times, 41 s | 2.2 times (bf16 4.0) | 0.80 (0.70) |",
        "| `predict`, ner, 4 x 256, 2,400 records in 18 s | pipeline, batches of 8, 41 s "
        "| 2.2 times | 0.80 |"]


def test_translation_has_rows_of_its_own() -> None:
    found = lines(
        measured("test_ctranslate2_against_generate", {"beam_size": 4}, threads=2, sentences=32,
                 tokens_per_second=1234, times_faster={"file order": 5.56, "sorted": 3.44}),
        measured("test_two_apertiums_against_one", {}, sentences_per_second=321,
                 times_faster=1.27))
    assert found[4].endswith("beam 4, 32 sentences as long as their sources, 1,234 tokens a second "
                             "| transformers' `generate`, 8 in file order; 16 sorted by length "
                             "| 5.6 times; 3.4 |  |")
    assert found[5].endswith("321 sentences a second | one | 1.3 times |  |")
