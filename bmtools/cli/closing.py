"""Sentences that end commands: what was written, the figure that matters, what to type next.

Each function returns the sentence and the next command, from what the command reports.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bmtools.cli.figures import format_duration, format_estimate, format_figure, heading
from bmtools.corpus.dedup.settings import contaminated_texts
from bmtools.corpus.overlap import SHARED, part_of
from bmtools.io.output import STDOUT, is_special
from bmtools.translation.projection.counts import count_lines

_MOST_SHARED = 4
Line = Mapping[str, Any]
Closing = tuple[str, str]
_MISSING_NAMED = 5


def after_import(records: int, counts: Mapping[str, int], output: str, task: str = "",
                 parts: Mapping[str, tuple[int, str]] | None = None,
                 overlaps: Sequence[Line] = ()) -> Closing:
    """Close `import`.

    Args:
        records: how many were written.
        counts: what was repaired or left out.
        output: file of the records.
        task: whose examples they are; empty for plain text.
        parts: parts of a set that are in one now, with their records and paths.
        overlaps: what parts share.
    """
    facts = [after_export(records, counts, output)]
    if parts:
        sizes = " and ".join(f"{count:,} of {name}" for name, (count, _) in parts.items())
        _, path = next(iter(parts.values()))
        facts.append(f"mixed, {sizes}: name one alone, as {shlex.quote(path)}")
    facts += [_shared([line]) or f"{line['of']} shares nothing with {line['in']}"
              for line in overlaps]
    return "; ".join(facts), "" if parts else _with_file(_after_set(task, output), output)


def _after_set(task: str, output: str) -> str:
    """Choose what comes after `import` by what was imported, and by the name of its file."""
    if task in ("", "mrr"):
        return "score-mrr {} --model CKPT" if task else "build-vocab {} -o vocabulary"
    part, _ = part_of(Path(output).name)
    files = {"train": "--train {} --dev FILE", "dev": "--train FILE --dev {}",
             "test": "--train FILE --dev FILE --test {}"}
    return f"finetune {task} --model CKPT {files[part]} -o model" if part else "split {} -o parts"


def after_export(records: int, counts: Mapping[str, int], output: str) -> str:
    """Close `export`, whose files no further command reads as they are."""
    totals = [f"{name}: {count:,}" for name, count in counts.items() if count]
    return "; ".join([f"{records:,} records{_to(output)}", *totals])


def after_export_model(lines: Sequence[Line]) -> Closing:
    """Close `export model`."""
    facts = [f"wrote {line['model']}: {line['format']} in {line['precision']}, " + (
        f"{line['tokens']:,} vectors of {line['dimensions']}" if "tokens" in line else
        f"logits within {max(found['max'] for found in line['difference'].values()):.2g} of the "
        "checkpoint's") for line in lines]
    return "; ".join(facts), ""


def after_clean(kept: int, counts: Mapping[str, int], output: str) -> Closing:
    """Close `clean`.

    Args:
        kept: records written.
        counts: of records, as `dropped RULE`, `changed RULE` and `found KIND` of personal data, and
            of `places RULE`.
        output: file of the records.
    """
    facts = []
    for what in ("dropped", "changed", "found"):
        rules = {name.removeprefix(f"{what} "): count for name, count in sorted(counts.items())
                 if name.startswith(f"{what} ")}
        listed = (f"{rule} {count:,}" + (f" (places {places:,})" if (
            places := counts.get(f"places {rule}", 0)) and what != "dropped" else "")
            for rule, count in rules.items())
        facts += [f"{what}: {', '.join(listed)}"] if rules else []
    dropped = sum(count for name, count in counts.items() if name.startswith("dropped "))
    return ("; ".join([f"{kept:,} of {kept + dropped:,} records{_to(output)}", *facts]),
            _with_file("dedup {} -o distinct.jsonl", output))


def after_translate(totals: str, output: str) -> Closing:
    """Close `translate`."""
    return f"translated {totals}{_to(output)}", _with_file("build-vocab {} -o vocabulary", output)


def after_project(records: int, counts: Mapping[str, int], output: str) -> Closing:
    """Close `project`."""
    facts = [f"{records:,} records{_to(output)}", *count_lines(counts)]
    return "; ".join(facts), _with_file("split {} -o parts", output)


def after_split(overlaps: Sequence[Line], report: Line | None) -> Closing:
    """Close `split`.

    Args:
        overlaps: what parts share.
        report: of the split; None after `--check`.
    """
    found = _shared(overlaps) or "no parts share a document, text or question"
    if report is None:
        return found, ""
    sizes = ", ".join(f"{name} {size:,}" for name, size in report["records"].items())
    return f"wrote {report['output']}: {sizes} records; {found}", ""


def _shared(overlaps: Sequence[Line]) -> str:
    shared = [f"{line['of']} shares {line[what]:,} {what} with {line['in']}"
              for line in overlaps for what in SHARED if line[what]]
    if len(shared) > _MOST_SHARED:
        shared = [*shared[:_MOST_SHARED], f"{len(shared) - _MOST_SHARED} more in the report"]
    return ", ".join(shared)


def after_sample(rungs: Sequence[Line], output: str) -> Closing:
    """Close `sample`."""
    facts = [f"{rung['sample']}: {rung['records']:,} records, "
             f"{format_figure('', rung['megabytes'])} MB of text" for rung in rungs]
    return "; ".join(facts) + _to(output), ""


def after_dedup(counts: Mapping[str, int], output: str) -> Closing:
    """Close `dedup`."""
    kept, exact, near = (counts.get(name, 0) for name in ("kept", "exact-duplicate",
                                                          "near-duplicate"))
    return (f"{kept:,} of {kept + exact + near:,} records{_to(output)}; left out {exact:,} exact "
            f"and {near:,} near duplicates", _with_file("build-vocab {} -o vocabulary", output))


def after_decontaminate(counts: Mapping[str, int], texts: int, output: str) -> Closing:
    """Close `decontaminate`.

    Args:
        counts: of records; and for each evaluation record that was found.
        texts: evaluation texts that were looked for.
        output: file of the records.
    """
    found = counts.get("contaminated", 0)
    return (f"{found:,} of {counts.get('all', 0):,} records hold {contaminated_texts(counts):,} of "
            f"{texts:,} evaluation texts{_to(output)}",
            _with_file("build-vocab {} -o vocabulary", output))


def after_mix(parts: Sequence[Line], output: str) -> Closing:
    """Close `mix`."""
    whole = sum(part["megabytes"] for part in parts)
    facts = [f"{part['corpus']}: {part['records']:,} records, "
             f"{format_figure('share', part['megabytes'] / whole)} of the text, "
             f"{format_figure('', part['epochs'])} passes" for part in parts]
    return "; ".join(facts) + _to(output), ""


def after_build_vocab(line: Line, extends: bool = False) -> Closing:
    """Close `build-vocab`."""
    directory = line["tokenizer"]
    what = f"wrote {directory}: {line['vocab_size']:,} {line['tokenizer_type']} tokens"
    if "sample" in line:
        what += f" from {line['sample']['documents']:,} documents"
    return what, _command("init-weights FILE --base CKPT --tokenizer {} -o initialised"
                          if extends else
                          "pretrain FILE --architecture bert-small --tokenizer {} -o model",
                          directory)


def after_compare_vocab(lines: Sequence[Line], paths: Mapping[str, Any]) -> Closing:
    """Close `compare-vocab`."""
    scope = next(line["scope"] for line in lines if "words" in line)
    pieces = {line["vocabulary"]: line["pieces_per_word"] for line in lines
              if line.get("scope") == scope and line.get("pieces_per_word") is not None}
    if not pieces:
        return f"compared {len(paths)} vocabularies", ""
    best = min(pieces, key=pieces.__getitem__)
    count = f"the fewest of {len(pieces)}, " if len(pieces) > 1 else ""
    return (f"{best} takes {count}{format_figure('', pieces[best])} pieces a word ({scope})",
            _command("pretrain FILE --architecture bert-small --tokenizer {} -o model",
                     paths[best]) if Path(paths[best]).is_dir() else "")


def after_tokenize(line: Line, tokenizer: object) -> Closing:
    """Close `tokenize`."""
    return (f"wrote {line['output']}: {line['tokens']:,} tokens of {line['documents']:,} documents",
            _command("pretrain {} --architecture bert-base --tokenizer {} -o model",
                     line["output"], tokenizer))


def after_find_contexts(summary: Line, sentences: int, output: str,
                        tokenizer: object = None) -> Closing:
    """Close `find-contexts`."""
    missing = summary["words"] - summary["found"]
    what = (f"{summary['found']} of {summary['words']} words found, {missing} not found; "
            f"{summary['occurrences']} occurrences, {sentences} sentences sampled{_to(output)}")
    return what, _with_file("init-weights {} --base CKPT --tokenizer {} -o initialised", output,
                            tokenizer or "vocabulary")


def after_init_weights(line: Line) -> Closing:
    """Close `init-weights`."""
    facts = [f"{line['parameters']:,} parameters"]
    if "tokens" in line:
        kept = line.get("copied", 0) + line.get("folded", 0)
        facts.append(f"{kept:,} of {line['tokens']:,} tokens keep their weights, the rest are made "
                     f"by {line['method']}")
    return (f"wrote {line['checkpoint']}: {'; '.join(facts)}",
            _command("pretrain FILE --model {} -o model", line["checkpoint"]))


def after_comparing_inits(lines: Sequence[Line]) -> Closing:
    """Close `init-weights --compare`."""
    stage = "probe" if all("probe" in line for line in lines) else "start"
    best = min(lines, key=lambda line: line[stage]["loss"])
    when = "after training" if stage == "probe" else "before training"
    return (f"{best['method']} has the lowest loss of {len(lines)} methods {when}, "
            f"{format_figure('loss', best[stage]['loss'])} nats a masked token",
            f"the same with --method {best['method']} -o DIR in place of --compare")


def after_preflight(forecast: Line, duration: str) -> Closing:
    """Close `preflight`."""
    memory = max(phase["memory_gib"] for phase in forecast["phases"])
    what = f"the run would take {duration} and " if duration else "the run would take "
    return (f"{what}{format_figure('', memory)} GiB of memory a process; this was measured",
            "the same with bmtools pretrain and -o DIR")


def after_training(line: Line) -> Closing:
    """Close `pretrain` and `distill`."""
    facts = []
    for name, label in (("evaluate", "held-out loss"), ("last", "loss")):
        found: Line = line.get(name) or {}
        loss = found.get("evaluate", found).get("loss")
        if loss is not None:
            facts = [f"{label} {format_figure('loss', loss)}"]
            break
    return (f"wrote {line['checkpoint']}: {', '.join(facts)} after {line['steps']:,} steps and "
            f"{line['tokens_seen']:,} tokens",
            _command("score-pppl FILE --model {}", line["checkpoint"]))


def after_finetune(line: Line) -> Closing:
    """Close `finetune`."""
    name = next(name for split in ("test_", "dev_") for name in line if name.startswith(split))
    seeds, folds = line["seeds"], line.get("folds", 0)
    of = f"{folds} folds" if folds else f"{seeds} seeds"
    spread = f"mean and deviation of {of}" if seeds > 1 or folds else "one seed"
    lost = [f"{line[key]} {what} diverged" for key, what in (
        ("diverged", "seed" + "s" * (line.get("diverged") != 1)),
        ("diverged_folds", "fold" + "s" * (line.get("diverged_folds") != 1))) if key in line]
    return (f"wrote {line['checkpoint']}: {heading(name)} {format_figure(name, line[name])} "
            f"({'; '.join([spread, *lost])})",
            f"{_command('merge {}', line['checkpoint'])}/fold-* -o merged" if folds else
            _command("predict FILE --model {}", line["checkpoint"]))


def after_merge(line: Line) -> Closing:
    """Close `merge`."""
    return f"wrote {line['checkpoint']}: the mean of {line['models']} models", ""


def after_energy(lines: Sequence[Line]) -> Closing:
    """Close `energy`: what is known of how many steps."""
    whole = lines[-1]
    kinds = [f"{format_figure('kwh', whole[kind]['kwh'])} kWh {kind}"
             for kind in ("measured", "allotted", "declared") if kind in whole]
    missing = (f"; {len(whole['without'])} without figures, --watts declares the machine's power"
               if whole["without"] else "")
    hours = format_duration(whole.get("hours", 0) * 3600)
    return f"{whole['steps']} steps, {', '.join([hours, *kinds])}{missing}", ""


def after_convert(line: Line) -> Closing:
    """Close `convert`."""
    left_out = line["left_out"]
    facts = [f"wrote {line['checkpoint']}: {line['class']}, {line['casing']}",
             *[f"left out {', '.join(left_out[:_MISSING_NAMED])}"
               + " and others" * (len(left_out) > _MISSING_NAMED)] * bool(left_out)]
    return "; ".join(facts), ""


def after_predict(records: int, output: str, model: object) -> Closing:
    """Close `predict`."""
    return (f"{records:,} records with predictions of {model}{_to(output)}",
            _with_file("score-tasks FILE {}", output))


def after_scoring(lines: Sequence[Line], metric: str, unit: str, output: str,
                  lowest: bool = True) -> Closing:
    """Close a `score-*` command: the best checkpoint's score, with its interval.

    Args:
        lines: those of checkpoints have the metric.
        metric: key that checkpoints are ranked by.
        unit: key of what was counted; models that count others than each other are not ranked.
        output: file of the lines.
        lowest: whether lower is better.
    """
    scored = [line for line in lines if line.get(metric) is not None and "model" in line]
    next_command = _with_file("table {}", output)
    if not scored:
        return f"scored {len(lines)} checkpoints", next_command
    models, counted = len({line["model"] for line in scored}), unit.replace("_", " ")
    if len({line.get("data") for line in scored}) > 1:
        return (f"scored {models} models, each on other {counted}; their comparisons are over "
                "those that both count"), next_command
    ranked = metric
    per_token = metric in ("pppl", "perplexity")
    if per_token and len({line.get("vocabulary") for line in scored}) > 1:
        # Tokens of different vocabularies do not compare, nor characters of different texts.
        ranked = "bits_per_character"
        if metric != "pppl" or len({_text_read(line) for line in scored}) > 1:
            return (f"scored {len(scored)} checkpoints that have no measure in common",
                    next_command)
    best = (min if lowest else max)(scored, key=lambda line: line[ranked])
    bounds = best.get("interval") or best.get("intervals", {}).get(metric)
    score = f"{heading(metric)} {format_estimate(metric, best[metric], bounds)}"
    if ranked != metric:
        score = f"{heading(ranked)} {format_figure(ranked, best[ranked])}, {score}"
    among = f"the {'lowest' if lowest else 'highest'} of {models}, " if models > 1 else ""
    return f"{best['model']} has {among}{score} over {best[unit]:,} {counted}", next_command


def after_score_translation(lines: Sequence[Line], output: str) -> Closing:
    """Close `score-translation`."""
    best = max((line for line in lines if "chrf" in line), key=lambda line: line["chrf"])
    score = format_estimate("chrf", best["chrf"], best.get("intervals", {}).get("chrf"))
    return (f"{best['model']} has chrF {score} over {best['segments']:,} segments",
            _with_file("table {}", output))


def after_score_suite(lines: Sequence[Line], sets: int, output: str) -> Closing:
    """Close `score-suite`: how complete each model is, and what its paper makes of it."""
    facts = []
    for line in lines:
        if "table" in line or "model" not in line:
            continue
        missing = line.get("missing", [])
        averages = [f"{name} {value:.2f}" for name, value in line.get("averages", {}).items()][-1:]
        more = f" and {len(missing) - _MISSING_NAMED} more" * (len(missing) > _MISSING_NAMED)
        without = f" (missing: {', '.join(missing[:_MISSING_NAMED])}{more})" if missing else ""
        has = f"{line['model']} has {sets - len(missing)} of {sets} sets{without}"
        others = ", ".join(dict.fromkeys(line.get("other_metrics", {}).values()))
        facts.append(", ".join([has, *averages, *([
            f"{others} in place of the paper's metric on {len(line['other_metrics'])} of them"]
            if others else [])]))
    return "; ".join(facts), _with_file("table {}", output)


def after_compare_models(lines: Sequence[Line], output: str) -> Closing:
    """Close `compare-models`: how much faster than the first model the fastest is."""
    first, *others = [(line["cpu"]["tokens_per_second"], line["model"]) for line in lines]
    speed, fastest = max(others, default=first)
    fact = f"{fastest} runs {speed / first[0]:.2g} times as fast as {first[1]} on the CPU" \
        if others else f"{first[1]} reads {first[0]:,} tokens a second on the CPU"
    return fact, _with_file("table {} --columns parameters,megabytes,cpu.tokens_per_second", output)


def after_report(page: Line, output: str) -> Closing:
    """Close `report`: what is on the page."""
    others = f"; {page['skipped']:,} other files were skipped" if page["skipped"] else ""
    return (f"wrote {output}, {page['bytes'] / 1000:,.0f} kB with {page['charts']} charts: "
            f"{', '.join(page['sections']).lower()}{others}", "")


def after_card(model: str, known: Mapping[str, bool]) -> str:
    """Close `card`: how complete it is, and what is missing."""
    missing = [name for name, is_known in known.items() if not is_known]
    share = 100 * (1 - len(missing) / len(known))
    return (f"the card of {model} is {share:.0f} % complete, {len(known) - len(missing)} of "
            f"{len(known)} things" + (f"; missing: {', '.join(missing)}; --about FILE states what "
                                      "only people know" if missing else ""))


def after_verify(lines: Sequence[Line]) -> Closing:
    """Close `verify`: how many are as they were."""
    same, *others = (sum(line["state"] == state for line in lines)
                     for state in ("same", "not found", "no hash recorded"))
    names = ("not found", "without a hash in their record")
    return ", ".join([f"{same} as recorded", *(f"{count} {name}" for count, name in
                                               zip(others, names, strict=True) if count)]), ""


def after_sign(line: Line) -> Closing:
    """Close `sign`."""
    return (f"signed {line['files']} files of {line['signed']}: {line['signature']}",
            f"bmtools verify {line['signed']} --public-key FILE")


def _text_read(line: Line) -> tuple[str, ...]:
    """Find what a signature says of the text that a model reads."""
    return tuple(field for field in line.get("signature", "").split("|")
                 if field.startswith(("case:", "accents:")))


def _to(output: str) -> str:
    return "" if output == STDOUT else f" to {output}"


def _with_file(command: str, output: str, *paths: object) -> str:
    return "" if output == STDOUT or is_special(output) else _command(command, output, *paths)


def _command(text: str, *paths: object) -> str:
    return f"bmtools {text.format(*(shlex.quote(str(path)) for path in paths))}"


