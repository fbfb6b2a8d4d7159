"""Sentences that end score commands: the best model's figure, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence

from bmtools.cli.closing import MISSING_NAMED, Closing, Line, with_file
from bmtools.errors import count_of
from bmtools.values import format_estimate, format_figure, heading


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
    next_command = with_file("table {}", output)
    if not scored:
        return f"scored {count_of(len(lines), 'checkpoints')}", next_command
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
    return f"{best['model']} has {among}{score} over {count_of(best[unit], counted)}", next_command


def after_score_translation(lines: Sequence[Line], output: str) -> Closing:
    """Close `score-translation`."""
    best = max((line for line in lines if "chrf" in line), key=lambda line: line["chrf"])
    score = format_estimate("chrf", best["chrf"], best.get("intervals", {}).get("chrf"))
    return (f"{best['model']} has chrF {score} over {count_of(best['segments'], 'segments')}",
            with_file("table {}", output))


def after_score_suite(lines: Sequence[Line], sets: int, output: str) -> Closing:
    """Close `score-suite`: how complete each model is, and what its paper makes of it."""
    facts = []
    for line in lines:
        if "table" in line or "model" not in line:
            continue
        missing = line.get("missing", [])
        averages = [f"{name} {value:.2f}" for name, value in line.get("averages", {}).items()][-1:]
        more = f" and {len(missing) - MISSING_NAMED} more" * (len(missing) > MISSING_NAMED)
        without = f" (missing: {', '.join(missing[:MISSING_NAMED])}{more})" if missing else ""
        has = f"{line['model']} has {sets - len(missing)} of {count_of(sets, 'sets')}{without}"
        others = ", ".join(dict.fromkeys(line.get("other_metrics", {}).values()))
        facts.append(", ".join([has, *averages, *([
            f"{others} in place of the paper's metric on {len(line['other_metrics'])} of them"]
            if others else [])]))
    return "; ".join(facts), with_file("table {}", output)


def after_compare_models(lines: Sequence[Line], output: str) -> Closing:
    """Close `compare-models`: how much faster than the first model the fastest is."""
    first, *others = [(line["cpu"]["tokens_per_second"], line["model"]) for line in lines]
    speed, fastest = max(others, default=first)
    fact = f"{fastest} runs {speed / first[0]:.2g} times as fast as {first[1]} on the CPU" \
        if others else f"{first[1]} reads {first[0]:,} tokens a second on the CPU"
    return fact, with_file("table {} --columns parameters,megabytes,cpu.tokens_per_second", output)


def _text_read(line: Line) -> tuple[str, ...]:
    """Find what a signature says of the text that a model reads."""
    return tuple(field for field in line.get("signature", "").split("|")
                 if field.startswith(("case:", "accents:")))
