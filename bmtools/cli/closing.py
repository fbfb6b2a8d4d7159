"""Sentences that end commands: what was written, the figure that matters, what to type next.

Each function returns the sentence and the next command, from what the command reports.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bmtools.corpus.duplicates.settings import contaminated_texts
from bmtools.corpus.overlap import SHARED, part_of
from bmtools.errors import count_of
from bmtools.io.output import STDOUT, is_special
from bmtools.translation.counts import count_lines
from bmtools.values import format_duration, format_figure, heading

_MOST_SHARED = 4
Line = Mapping[str, Any]
Closing = tuple[str, str]
MISSING_NAMED = 5


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
    return "; ".join(facts), "" if parts else with_file(_after_set(task, output), output)


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
    return "; ".join([count_of(records, "records") + _to(output), *totals])


def after_export_model(lines: Sequence[Line]) -> Closing:
    """Close `export model`."""
    facts = [f"wrote {line['model']}: {line['format']} in {line['precision']}, " + (
        f"{count_of(line['tokens'], 'vectors')} of {line['dimensions']}" if "tokens" in line else
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
    return ("; ".join([f"{kept:,} of {count_of(kept + dropped, 'records')}{_to(output)}", *facts]),
            with_file("dedup {} -o distinct.jsonl", output))


def after_translate(totals: str, output: str) -> Closing:
    """Close `translate`."""
    return f"translated {totals}{_to(output)}", with_file("build-vocab {} -o vocabulary", output)


def after_project(records: int, counts: Mapping[str, int], output: str) -> Closing:
    """Close `project`."""
    facts = [count_of(records, "records") + _to(output), *count_lines(counts)]
    return "; ".join(facts), with_file("split {} -o parts", output)


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
    shared = [f"{line['of']} shares {count_of(line[what], what)} with {line['in']}"
              for line in overlaps for what in SHARED if line[what]]
    if len(shared) > _MOST_SHARED:
        shared = [*shared[:_MOST_SHARED], f"{len(shared) - _MOST_SHARED} more in the report"]
    return ", ".join(shared)


def after_sample(rungs: Sequence[Line], output: str) -> Closing:
    """Close `sample`."""
    facts = [f"{rung['sample']}: {count_of(rung['records'], 'records')}, "
             f"{format_figure('', rung['megabytes'])} MB of text" for rung in rungs]
    return "; ".join(facts) + _to(output), ""


def after_dedup(counts: Mapping[str, int], output: str) -> Closing:
    """Close `dedup`."""
    kept, exact, near = (counts.get(name, 0) for name in ("kept", "exact-duplicate",
                                                          "near-duplicate"))
    return (f"{kept:,} of {count_of(kept + exact + near, 'records')}{_to(output)}; left out "
            f"{exact:,} exact and {count_of(near, 'near duplicates')}",
            with_file("build-vocab {} -o vocabulary", output))


def after_decontaminate(counts: Mapping[str, int], texts: int, output: str) -> Closing:
    """Close `decontaminate`.

    Args:
        counts: of records; and for each evaluation record that was found.
        texts: evaluation texts that were looked for.
        output: file of the records.
    """
    found = counts.get("contaminated", 0)
    hold = "holds" if found == 1 else "hold"
    return (f"{found:,} of {count_of(counts.get('all', 0), 'records')} {hold} "
            f"{contaminated_texts(counts):,} of {count_of(texts, 'evaluation texts')}{_to(output)}",
            with_file("build-vocab {} -o vocabulary", output))


def after_mix(parts: Sequence[Line], output: str) -> Closing:
    """Close `mix`."""
    whole = sum(part["megabytes"] for part in parts)
    facts = [f"{part['corpus']}: {count_of(part['records'], 'records')}, "
             f"{format_figure('share', part['megabytes'] / whole)} of the text, "
             f"{format_figure('', part['epochs'])} passes" for part in parts]
    return "; ".join(facts) + _to(output), ""


def after_build_vocab(line: Line, extends: bool = False) -> Closing:
    """Close `build-vocab`."""
    directory = line["tokenizer"]
    what = f"wrote {directory}: {line['vocab_size']:,} {line['tokenizer_type']} tokens"
    if "sample" in line:
        what += f" from {count_of(line['sample']['documents'], 'documents')}"
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
        return f"compared {count_of(len(paths), 'vocabularies')}", ""
    best = min(pieces, key=pieces.__getitem__)
    count = f"the fewest of {len(pieces)}, " if len(pieces) > 1 else ""
    return (f"{best} takes {count}{format_figure('', pieces[best])} pieces a word ({scope})",
            _command("pretrain FILE --architecture bert-small --tokenizer {} -o model",
                     paths[best]) if Path(paths[best]).is_dir() else "")


def after_tokenize(line: Line, tokenizer: object) -> Closing:
    """Close `tokenize`."""
    return (f"wrote {line['output']}: {count_of(line['tokens'], 'tokens')} of "
            f"{count_of(line['documents'], 'documents')}",
            _command("pretrain {} --architecture bert-base --tokenizer {} -o model",
                     line["output"], tokenizer))


def after_find_contexts(summary: Line, sentences: int, output: str,
                        tokenizer: object = None) -> Closing:
    """Close `find-contexts`."""
    missing = summary["words"] - summary["found"]
    what = (f"{summary['found']} of {count_of(summary['words'], 'words')} found, {missing} not "
            f"found; {count_of(summary['occurrences'], 'occurrences')}, "
            f"{count_of(sentences, 'sentences')} sampled{_to(output)}")
    return what, with_file("init-weights {} --base CKPT --tokenizer {} -o initialised", output,
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
    return (f"{best['method']} has the lowest loss of {count_of(len(lines), 'methods')} {when}, "
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
    return (f"wrote {line['checkpoint']}: {', '.join(facts)} after "
            f"{count_of(line['steps'], 'steps')} and {count_of(line['tokens_seen'], 'tokens')}",
            _command("score-pppl FILE --model {}", line["checkpoint"]))


def after_finetune(line: Line) -> Closing:
    """Close `finetune`."""
    name = next(name for split in ("test_", "dev_") for name in line if name.startswith(split))
    seeds, folds = line["seeds"], line.get("folds", 0)
    of = count_of(folds, "folds") if folds else count_of(seeds, "seeds")
    spread = f"mean and deviation of {of}" if seeds > 1 or folds else "one seed"
    lost = [f"{count_of(line[key], what)} diverged" for key, what in (
        ("diverged", "seeds"), ("diverged_folds", "folds")) if key in line]
    return (f"wrote {line['checkpoint']}: {heading(name)} {format_figure(name, line[name])} "
            f"({'; '.join([spread, *lost])})",
            f"{_command('merge {}', line['checkpoint'])}/fold-* -o merged" if folds else
            _command("predict FILE --model {}", line["checkpoint"]))


def after_merge(line: Line) -> Closing:
    """Close `merge`."""
    return f"wrote {line['checkpoint']}: the mean of {count_of(line['models'], 'models')}", ""


def after_energy(lines: Sequence[Line]) -> Closing:
    """Close `energy`: what is known of how many steps."""
    whole = lines[-1]
    kinds = [f"{format_figure('kwh', whole[kind]['kwh'])} kWh {kind}"
             for kind in ("measured", "allotted", "declared") if kind in whole]
    missing = (f"; {len(whole['without'])} without figures, --watts declares the machine's power"
               if whole["without"] else "")
    hours = format_duration(whole.get("hours", 0) * 3600)
    return f"{count_of(whole['steps'], 'steps')}, {', '.join([hours, *kinds])}{missing}", ""


def after_convert(line: Line) -> Closing:
    """Close `convert`."""
    left_out = line["left_out"]
    facts = [f"wrote {line['checkpoint']}: {line['class']}, {line['casing']}",
             *[f"left out {', '.join(left_out[:MISSING_NAMED])}"
               + " and others" * (len(left_out) > MISSING_NAMED)] * bool(left_out)]
    return "; ".join(facts), ""


def after_predict(records: int, output: str, model: object) -> Closing:
    """Close `predict`."""
    return (f"{count_of(records, 'records')} with predictions of {model}{_to(output)}",
            with_file("score-tasks FILE {}", output))


def after_report(page: Line, output: str) -> Closing:
    """Close `report`: what is on the page."""
    others = f"; skipped {count_of(page['skipped'], 'other files')}" if page["skipped"] else ""
    charts = count_of(page["charts"], "charts")
    return (f"wrote {output}, {page['bytes'] / 1000:,.0f} kB with {charts}: "
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
    return (f"signed {count_of(line['files'], 'files')} of {line['signed']}: {line['signature']}",
            f"bmtools verify {line['signed']} --public-key FILE")


def _to(output: str) -> str:
    return "" if output == STDOUT else f" to {output}"


def with_file(command: str, output: str, *paths: object) -> str:
    """Return the command that reads an output; empty where that is no file."""
    return "" if output == STDOUT or is_special(output) else _command(command, output, *paths)


def _command(text: str, *paths: object) -> str:
    return f"bmtools {text.format(*(shlex.quote(str(path)) for path in paths))}"
