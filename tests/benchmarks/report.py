"""The table of docs/performance.md from results: `python tests/benchmarks/report.py bench.json`.

`make bench` writes that file. Rows are printed as Markdown, also those of tests that are not known
here if they report how many times faster they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = tuple[str, str, str, str]
Measured = Mapping[str, Any]
_HEADINGS = ("what", "beside", "speed", "peak memory")


def rows_of(benchmarks: Sequence[Measured]) -> Iterator[Row]:
    """Turn benchmarks into rows of the table; those that compared nothing are skipped."""
    for one in benchmarks:
        make = _ROWS.get(one["name"].partition("[")[0], _any)
        if "times_faster" in one["extra_info"]:
            yield make(one["params"] or {}, one["extra_info"])


def _any(params: Measured, info: Measured) -> Row:
    what = ", ".join(f"{name} {value}" for name, value in params.items())
    return what, "", _times(info["times_faster"]), ""


def _pppl(params: Measured, info: Measured) -> Row:
    exact = info["times_faster"]
    return (f"`score-pppl`, {params['layers']} layers of {params['width']}, vocabulary of "
            f"{info['vocabulary']:,}, {info['sentences']} sentences", "minicons",
            f"{_times(exact['median'])}; without start-up "
            f"{_number(info['without_start']['exact'])}", f"{exact['memory']:.2f}")


def _start(params: Measured, info: Measured) -> Row:
    return (f"`{params['name']}`, one sentence, 2 layers of 128, in {info['seconds']:.1f} s "
            f"(`import torch` {info['import_torch_seconds']:.1f} s)",
            f"transformers' pipeline, {info['pipeline_seconds']:.1f} s",
            _times(info["times_faster"]), "")


def _finetune(params: Measured, info: Measured) -> Row:
    return _race(f"`finetune {params['task']}`", params, info,
                 f"Trainer; its batches grouped by length "
                 f"{_number(info['grouped']['median'])} times",
                 f", {info['epochs']} epochs")


def _predict(params: Measured, info: Measured) -> Row:
    return _race(f"`predict`, {params['task']}", params, info,
                 f"pipeline, batches of {info['batch_size']}")


def _race(what: str, params: Measured, info: Measured, beside: str, epochs: str = "") -> Row:
    """Compare float32 with float32, and bf16 with bf16 in brackets where the processor has it."""
    ratio, half = info["times_faster"], info.get("bf16")
    own = next(iter(info["seconds"].values()))
    return (f"{what}, {params['layers']} x {params['width']}, {info['records']:,} records{epochs} "
            f"in {info['seconds']['bmtools']:.0f} s", f"{beside}, {own:.0f} s",
            _times(ratio["median"]) + (f" (bf16 {_number(half['median'])})" if half else ""),
            f"{ratio['memory']:.2f}" + (f" ({half['memory']:.2f})" if half else ""))


def _mrr(params: Measured, info: Measured) -> Row:
    return (f"`score-mrr`, 12 layers of 768, {info['maskings']} maskings in "
            f"{info['seconds']:.0f} s (bf16 {info['bf16_seconds']:.0f} s)",
            "the fill-mask pipeline",
            f"{_times(info['times_faster'])} ({_number(info['bf16_times_faster'])})",
            f"{info['memory']:.2f}")


def _translate(params: Measured, info: Measured) -> Row:
    ratio = info["times_faster"]
    return (f"`translate --engine ctranslate2`, int8, Marian of 6 + 6 x 512, beam "
            f"{params['beam_size']}, {info['sentences']} sentences as long as their sources, "
            f"{info['tokens_per_second']:,} tokens a second",
            "transformers' `generate`, 8 in file order; 16 sorted by length",
            f"{_times(ratio['file order'])}; {_number(ratio['sorted'])}", "")


def _translate_records(params: Measured, info: Measured) -> Row:
    return (f"the same with greedy search, {info['sentences']} sentences from records to records",
            "CTranslate2 with their tokens", f"{info['times_faster']:.2f} times", "")


def _apertium(params: Measured, info: Measured) -> Row:
    return (f"`translate --engine apertium --processes 2`, {info['sentences_per_second']} "
            "sentences a second", "one", _times(info["times_faster"]), "")


def _masking(params: Measured, info: Measured) -> Row:
    alone = _number(info["times_faster_than_masking_alone"])
    return (f"whole-word masking, length {params['length']}", "transformers' collator",
            f"{_times(info['times_faster'])}; its masking alone {alone}", "")


def _tokenize(params: Measured, info: Measured) -> Row:
    memory = info["peak_megabytes"] / info["datasets_peak_megabytes"]
    return (f"`tokenize`, {info['megabytes']:.0f} MB on one core", "`datasets.map`",
            _times(info["times_faster"]), f"{memory:.2f}")


def _cache(params: Measured, info: Measured) -> Row:
    share = 100 * info["seconds"] / info["apertium_seconds"]
    return (f"`translate --cache`, {info['sentences']:,} new sentences, looked up and stored "
            f"({info['look_ups_per_second']:,} look-ups of known ones a second)",
            f"Apertium's {info['apertium_seconds']:.0f} s for them",
            f"{share:.1f} % of its time", "")


def _vocabulary(params: Measured, info: Measured) -> Row:
    memory = info["peak_megabytes"] / info["library_peak_megabytes"]
    return (f"`build-vocab --tokenizer-type {params['kind']}`, {info['megabytes']:.0f} MB",
            "the bare library", _times(info["times_faster"]), f"{memory:.1f}")


def _contexts(params: Measured, info: Measured) -> Row:
    memory = info["peak_megabytes"]["sampling"] / info["peak_megabytes"]["pyahocorasick"]
    alone = _number(info["times_faster_than_matching_alone"])
    return (f"`find-contexts`, {info['words']:,} words, {info['megabytes']:.0f} MB, one process",
            "pyahocorasick, which samples nothing",
            f"{_times(info['times_faster'])}; without sampling {alone}", f"{memory:.1f}")


def _dedup(params: Measured, info: Measured) -> Row:
    return (f"`dedup`, near duplicates of {info['records']:,} abstracts, {info['megabytes']} MB, "
            f"{info['megabytes_per_second']:.0f} MB/s on one core", "datasketch",
            _times(info["times_faster"]), "")


def _clean(params: Measured, info: Measured) -> Row:
    rates = info["megabytes_per_second"]
    return (f"`clean` with all repairs, lengths, shares and language, {info['megabytes']:.0f} MB, "
            f"{_number(rates['bmtools'])} MB/s a core (without language and Unicode "
            f"{_number(rates['without language and Unicode'])})",
            f"a script with ftfy and py3langid on whole texts, {_number(rates['script'])} MB/s",
            _times(info["times_faster"]), "")


def _articles(_params: Measured, info: Measured) -> Row:
    return (f"`import pmc`, six articles, {info['megabytes_per_second']:.0f} MB/s a core",
            "pubmed_parser, two calls a file", _times(info["times_faster"]), "")


def _pubmed(params: Measured, info: Measured) -> Row:
    return (f"`import pubmed`, {info['megabytes']} MB of XML, "
            f"{info['megabytes_per_second']:.0f} MB/s on one core (lxml alone "
            f"{info['lxml_megabytes_per_second']:.0f})", "pubmed_parser, which writes nothing",
            _times(info["times_faster"]), "")


def _transfer(params: Measured, info: Measured) -> Row:
    return (f"`init-weights --method contextual`, {params['layers']} layers of {params['width']}",
            f"batches of {params['beside']}", _times(info["times_faster"]), "")


def _encoder(params: Measured, info: Measured) -> Row:
    return (f"fast encoder, {params['family']}, {params['layers']} layers of {params['width']}: "
            f"{_number(info['microseconds_per_token'])} microseconds per token on one thread",
            "transformers' encoder", _times(info["times_faster"]), "")


def _fast_pppl(params: Measured, info: Measured) -> Row:
    return (f"`score-pppl`, {info['layers']} layers of {info['width']}, {info['sentences']} "
            f"sentences in {info['seconds']:.1f} s", "the same with transformers' encoder",
            _times(info["times_faster"]["median"]), f"{info['times_faster']['memory']:.2f}")


def _grouped(params: Measured, info: Measured) -> Row:
    return _pretrain(info, "Trainer, documents end to end (`group_texts`)")


def _lines(params: Measured, info: Measured) -> Row:
    kind = params["kind"].removesuffix("s")
    what, beside, speed, memory = _pretrain(
        info, f"Trainer, padded to {info['max_length']} (`line_by_line`)")
    article = "an" if kind[0] in "aeiou" else "a"
    return f"{what}, {article} {kind} a document", beside, speed, memory


def _pretrain(info: Measured, beside: str) -> Row:
    """Compare both layouts, or compiled and not, with each peer."""
    ours = list(info["times_faster"])
    peers = list(info["times_faster"][ours[0]])
    what = f"`pretrain`, {_model(info['architecture'])}, length {info['max_length']}"
    if info["precision"] != "no":
        what += f", {info['precision']}"
    speeds = [f"{_words(peer)}{_each(info, ours, peer)}" for peer in peers]
    memory = " / ".join(
        f"{info['sides'][name]['peak_megabytes'] / info['sides'][peers[0]]['peak_megabytes']:.2f}"
        for name in ours if peers)
    return f"{what} ({' / '.join(ours)})", beside, "; ".join(speeds), memory


def _distill(params: Measured, info: Measured) -> Row:
    """Compare float32 and the default precision with the loop, by processor time."""
    what = (f"`distill`, {_model(params['student'])}, taught by {_model(params['teacher'])}, KL at "
            f"{params['positions']} tokens")
    loop = info["sides"]["loop"]["peak_megabytes"]
    ours = list(info["times_faster"])
    speeds = [_number(info["times_faster"][name]["loop"]["processor"]) for name in ours]
    memory = [f"{info['sides'][name]['peak_megabytes'] / loop:.2f}" for name in ours]
    return (f"{what} ({' / '.join(ours)})", "a loop around transformers, in float32",
            f"{' / '.join(speeds)} times by processor time", " / ".join(memory))


def _precisions(params: Measured, info: Measured) -> Row:
    """Compare the defaults of both sides, then each precision with itself."""
    times, sides = info["times_faster"], info["sides"]
    alike = [f"{name} on both sides {_number(times[name][peer]['median'])}"
             for name, peer in (("float32", "trainer"), ("bf16", "trainer bf16"))
             if peer in times.get(name, {})]
    memory = sides["default"]["peak_megabytes"] / sides["trainer"]["peak_megabytes"]
    return (f"`pretrain`, {_model(info['architecture'])}, length {info['max_length']}, as it is "
            f"by default (here {info['default']})", "Trainer as `run_mlm` is by default (float32)",
            "; ".join([_times(times["default"]["trainer"]["median"]), *alike]), f"{memory:.2f}")


def _each(info: Measured, ours: Sequence[str], peer: str) -> str:
    numbers = [_number(info["times_faster"][name][peer]["median"]) for name in ours]
    return " / ".join(numbers) + (" times" if not _words(peer) else "")


def _words(peer: str) -> str:
    """Return the difference of a peer from the first."""
    apart = peer.removeprefix("trainer").strip()
    return f"{apart} " if apart else ""


def _model(architecture: str) -> str:
    family, _, shape = architecture.rpartition("-")
    layers, _, width = shape.partition("x")
    return f"{family.upper()}, {layers} layers of {width}" if width else architecture


def _times(ratio: float) -> str:
    return f"{_number(ratio)} times"


def _number(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


_ROWS: Mapping[str, Callable[[Measured, Measured], Row]] = {
    "test_pppl_against_minicons": _pppl, "test_mrr_against_fill_mask": _mrr,
    "test_words_against_transformers": _masking,
    "test_tokenize_against_datasets": _tokenize, "test_cost_of_the_cache": _cache,
    "test_pretrain_against_trainer": _grouped,
    "test_pretrain_against_padded_documents": _lines, "test_pretrain_by_precision": _precisions,
    "test_pretrain_on_a_gpu": _grouped, "test_compiled_pretraining_on_a_gpu": _grouped,
    "test_distill_against_a_plain_loop": _distill,
    "test_build_vocab_against_the_library": _vocabulary,
    "test_contexts_against_pyahocorasick": _contexts,
    "test_near_duplicates_against_datasketch": _dedup,
    "test_clean_against_a_script": _clean,
    "test_pubmed_against_pubmed_parser": _pubmed,
    "test_articles_beside_pubmed_parser": _articles,
    "test_contexts_against_plain_batches": _transfer, "test_encoder_per_token": _encoder,
    "test_score_pppl_with_and_without_fast_encoder": _fast_pppl, "test_start": _start,
    "test_ctranslate2_against_generate": _translate,
    "test_translate_against_bare_ctranslate2": _translate_records,
    "test_two_apertiums_against_one": _apertium,
    "test_finetune_against_trainer": _finetune, "test_predict_against_pipeline": _predict}


def table(measured: Measured) -> str:
    """Turn a file of pytest-benchmark into a line on the machine and a Markdown table."""
    rows = [_HEADINGS, ("---", "---", "---:", "---:"), *rows_of(measured["benchmarks"])]
    return "\n".join([_circumstances(measured), "", *("| " + " | ".join(row) + " |"
                                                      for row in rows), *_more(measured)])


def _circumstances(measured: Measured) -> str:
    machine = measured["machine_info"]
    threads = {one["extra_info"]["threads"] for one in measured["benchmarks"]
               if "threads" in one["extra_info"]}
    gpus = {one["extra_info"]["gpu"] for one in measured["benchmarks"]
            if "gpu" in one["extra_info"]}
    parts = [*(sorted(gpus) or [machine["cpu"].get("brand_raw", machine["machine"])]),
             *(f"{number} threads" for number in sorted(threads)),
             *(f"{name} {version}" for name, version in machine.get("versions", {}).items()),
             measured["datetime"][:10]]
    return ", ".join(parts)


def _more(measured: Measured) -> Iterator[str]:
    """Yield a GPU's share of its peak, and the hours that published runs would take on it."""
    for one in measured["benchmarks"]:
        info = one["extra_info"]
        if "share_of_peak" in info:
            shares = (f"{name} {info['sides'][name]['tokens_per_second']:,} tokens/s, "
                    + (f"{share:.0%} of the peak" if share else "peak unknown")
                    for name, share in info["share_of_peak"].items())
            yield f"\n{_model(info['architecture'])}, length {info['max_length']}: " \
                + "; ".join(shares) + ("" if info["real_text"] else " (made-up text)")
        if "matrix_share" in info:
            shares = (f"{name} {one['bmtools']:.0%} of {one['gigaflops']:,} GFLOP/s (Trainer "
                      f"{one['trainer']:.0%})" for name, one in info["matrix_share"].items())
            yield f"\n{_model(info['architecture'])}, length {info['max_length']}, share of the " \
                f"speed of a large matrix product: {'; '.join(shares)}"
        for what, hours in info.get("gpu_hours", {}).items():
            yield f"{what}: {hours:,} GPU-hours"


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
