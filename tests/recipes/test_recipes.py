"""The shipped recipes against the papers, by a table written by hand."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from bmtools.recipes.phases import resolved
from bmtools.recipes.settings import DistillationConfig
from bmtools.recipes.toml import load_recipe, parse_run_config, recipe_names, recipe_text, to_toml

NAMES = ("biobert", "biobit", "biolm-base", "biolm-base-continued", "biolm-distill",
         "biolm-distill-align", "biolm-large", "biolm-large-continued", "biomed-roberta",
         "biomegatron-1.2b",
         "biomegatron-345m", "biomegatron-800m", "bioptimus", "bioptimus-continued",
         "bioptimus-more-words", "bioptimus-no-curriculum", "bioptimus-scratch", "bioptimus-words",
         "bsc-bio-es", "camembert-bio", "christbert", "clinicalbert",
         "clm-detour", "distilbert", "drbert", "laptop", "medbit",
         "medbit-or", "medbit-r0", "medbit-r12", "medbit-r3", "medbit-r3-textbooks", "medbit-rf",
         "pubmedbert", "pubmedbert-adversarial", "pubmedbert-mask-schedule")
# Papers by authors and year, the start of a source.
AUTHORS = {"biobit": "Buonocore et al. 2023", "medbit": "Buonocore et al. 2023",
           "biolm": "Lewis et al. 2020", **dict.fromkeys(
               ("biobert", "clinicalbert", "biomed"), "Lewis et al. 2020, section 4, on "),
           "biomegatron": "Shin et al. 2020",
           "bioptimus": "Pavlova and Makhlouf 2023", "pubmedbert": "Gu et al. 2021",
           "camembert": "Touchent et al. 2024", "drbert": "Labrak et al. 2023",
           "bsc": "Carrino et al. 2022", "christbert": "He et al. 2026",
           "clm": "Touchent and de la Clergerie 2026",
           "distilbert": "Sanh et al. 2020",
           "laptop": "none: made for bmtools, as tried in examples/speedrun"}
MEDBIT = {"max_length": 512, "mask_rate": 0.15, "learning_rate": 3e-5, "schedule": "cosine",
          "batch_size": 16, "epochs": 10.0, "steps": 0, "tokens": 0, "objective": "masked",
          "masking": "tokens", "min_lr_ratio": 0.0}
MIXOUT = {"mixout": 0.9, "mixout_scope": "linear", "mixout_gradient": "unscaled"}
MEDBIT_RUN = {"weight_decay": 0.01, "adam_epsilon": 1e-6, "layer_decay": 0.95}
BERT = {"objective": "masked+nsp", "mask_rate": 0.15, "masking": "tokens", "schedule": "linear",
        "mask_replace_prob": 0.8, "random_replace_prob": 0.1, "warmup_steps": 10_000,
        "min_lr_ratio": 0.0}
BERT_RUN = {"weight_decay": 0.01, "adam_beta2": 0.999, "dropout": 0.1}
BIOLM = {"max_length": 512, "mask_rate": 0.15, "batch_size": 8192, "steps": 500_000,
         "warmup_ratio": 0.05, "schedule": "linear", "min_lr_ratio": 0.0, "objective": "masked",
         "mask_replace_prob": 0.8, "random_replace_prob": 0.1}
BIOLM_RUN = {"adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-6, "dropout": 0.1,
             "weight_decay": 0.01, "precision": "fp16"}
PUBMEDBERT = {"steps": 62_500, "batch_size": 8192, "learning_rate": 6e-4, "warmup_ratio": 0.1,
              "schedule": "linear", "min_lr_ratio": 0.0, "masking": "words",
              "objective": "masked+nsp", "mask_replace_prob": 0.8, "random_replace_prob": 0.1}
BIOMEGATRON = {"epochs": 1.0, "steps": 0, "tokens": 0, "batch_size": 1024, "learning_rate": 1e-4,
               "objective": "masked+sop", "masking": "spans", "mask_rate": 0.15,
               "schedule": "linear"}
BIOMEGATRON_RUN = {"weight_decay": 0.01, "max_grad_norm": 1.0, "dropout": 0.1}
BIOPTIMUS = {"batch_size": 256, "schedule": "linear", "objective": "masked"}
BIOPTIMUS_ALONE = {**BIOPTIMUS, "mask_rate": 0.15, "learning_rate": 5e-4, "warmup_ratio": 0.06,
                   "mask_replace_prob": 0.8, "random_replace_prob": 0.1}
DETOUR = {"max_length": 8192, "batch_size": 384, "learning_rate": 2e-4, "frozen_layers": 0}
# Values of each phase, and of the run.
PAPERS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    # Methods, "Italian Language Pretraining"; Lee et al. 2020, 4.2; Devlin et al. 2019, A.2.
    "biobit": ([{**BERT, "max_length": 512, "batch_size": 192, "steps": 1_000_000,
                 "learning_rate": 1e-4}], BERT_RUN),
    # Table 2, rows R3+ and R12+, and the notebook.
    "medbit-r3": ([{**MEDBIT, "warmup_ratio": 0.02}], {**MEDBIT_RUN, **MIXOUT}),
    "medbit-r12": ([{**MEDBIT, "warmup_ratio": 0.0, "warmup_steps": 0}],
                   {**MEDBIT_RUN, "replay_steps": 50, "mixout": 0.0}),
    "medbit-or": ([{**MEDBIT, "warmup_ratio": 0.02}],
                  {**MEDBIT_RUN, "layer_decay": 0.9, **MIXOUT}),
    "medbit": ([{**MEDBIT, "warmup_ratio": 0.0, "frozen_layers": 0}],
               {**MEDBIT_RUN, "layer_decay": 1.0, "mixout": 0.0, "replay_steps": None}),
    "medbit-rf": ([{**MEDBIT, "warmup_ratio": 0.0, "frozen_layers": 6}],
                  {**MEDBIT_RUN, "layer_decay": 1.0, "mixout": 0.0, "replay_steps": None}),
    "medbit-r0": ([{**MEDBIT, "warmup_ratio": 0.0}],
                  {**MEDBIT_RUN, "layer_decay": 0.9, "mixout": 0.0, "replay_steps": 100}),
    "medbit-r3-textbooks": ([{**MEDBIT, "warmup_ratio": 0.02}],
                            {**MEDBIT_RUN, "layer_decay": 0.9, **MIXOUT}),
    # Section 7.1.
    "biolm-distill": ([{**BIOLM, "steps": 50_000, "learning_rate": 5e-4}], BIOLM_RUN),
    "biolm-distill-align": ([{**BIOLM, "steps": 50_000, "learning_rate": 5e-4}], BIOLM_RUN),
    # train.py and distiller.py; section 3.
    "distilbert": ([{"epochs": 3.0, "batch_size": 4000, "max_length": 512, "mask_rate": 0.15,
                     "mask_replace_prob": 0.8, "random_replace_prob": 0.1, "learning_rate": 5e-4,
                     "warmup_ratio": 0.05, "schedule": "linear", "objective": "masked"}],
                   {"adam_beta2": 0.98, "adam_epsilon": 1e-6, "weight_decay": 0.0, "dropout": 0.1,
                    "max_grad_norm": 5.0}),
    # Section 5.1.
    "biolm-base-continued": ([{**BIOLM, "learning_rate": 6e-4}], BIOLM_RUN),
    "biolm-large-continued": ([{**BIOLM, "learning_rate": 4e-4}], BIOLM_RUN),
    "biolm-base": ([{**BIOLM, "learning_rate": 6e-4}], BIOLM_RUN),
    "biolm-large": ([{**BIOLM, "learning_rate": 4e-4}], BIOLM_RUN),
    # Section 4: BioBERT, ClinicalBERT and BioMed-RoBERTa.
    "biobert": ([{**BERT, "max_length": 512, "batch_size": 192, "learning_rate": 1e-4,
                  "steps": steps, "mixture": {corpus: 1.0}}
                 for steps, corpus in ((200_000, "pubmed"), (270_000, "pmc"),
                                       (1_000_000, "pubmed"))], BERT_RUN),
    "clinicalbert": ([{**BERT, "max_length": 128, "batch_size": 32, "learning_rate": 5e-5,
                       "steps": 150_000}], BERT_RUN),
    "biomed-roberta": ([{**BIOLM, "steps": 12_500, "batch_size": 2048, "learning_rate": 5e-4,
                         "warmup_ratio": 0.06}],
                       {key: value for key, value in BIOLM_RUN.items() if key != "precision"}),
    # The page of the model.
    "camembert-bio": ([{"objective": "masked", "masking": "words", "steps": 50_000}], {}),
    # from_scratch/run_training.sh and the defaults of transformers' Trainer.
    "drbert": ([{"objective": "masked", "masking": "tokens", "mask_rate": 0.15, "epochs": 400.0,
                 "max_length": 512, "batch_size": 32 * 128, "learning_rate": 5e-5,
                 "schedule": "linear", "warmup_steps": 10_000}],
               {"weight_decay": 0.0, "adam_epsilon": 1e-8, "adam_beta2": 0.999,
                "precision": "fp16"}),
    # The model card; Liu et al. 2019, table 9.
    "bsc-bio-es": ([{**BIOLM, "masking": "tokens", "steps": 0, "epochs": 1.0, "batch_size": 2048,
                     "learning_rate": 5e-4, "warmup_ratio": 0.048}],
                   {key: value for key, value in BIOLM_RUN.items() if key != "precision"}),
    # The model card.
    "christbert": ([{"objective": "masked", "masking": "words", "steps": 100_000,
                     "max_length": 512, "batch_size": 8192, "learning_rate": 7e-4,
                     "schedule": "linear", "warmup_steps": 10_000}], {}),
    # Table 4; lengths from table 8 and section 8.2.
    "bioptimus": ([{**BIOPTIMUS, "masking": "tokens", "mask_rate": 0.15, "mask_replace_prob": 0.8,
                    "random_replace_prob": 0.1, "epochs": 7.0, "learning_rate": 1e-4},
                   {**BIOPTIMUS, "masking": "words", "mask_rate": 0.15, "mask_replace_prob": 0.8,
                    "random_replace_prob": 0.1, "epochs": 8.0},
                   {**BIOPTIMUS, "masking": "words", "mask_rate": 0.2, "mask_replace_prob": 0.8,
                    "random_replace_prob": 0.1, "epochs": 9.0},
                   {**BIOPTIMUS, "masking": "words", "mask_rate": 0.2, "mask_replace_prob": 1.0,
                    "random_replace_prob": 0.0, "epochs": 10.0}],
                  {"weight_decay": 0.01}),
    # Tables 1, 3 and 8.
    "bioptimus-scratch": ([{**BIOPTIMUS_ALONE, "masking": "tokens"}], {"weight_decay": 0.01}),
    "bioptimus-continued": ([{**BIOPTIMUS_ALONE, "masking": "tokens"}], {"weight_decay": 0.01}),
    "bioptimus-words": ([{**BIOPTIMUS_ALONE, "masking": "words"}], {"weight_decay": 0.01}),
    "bioptimus-more-words": ([{**BIOPTIMUS_ALONE, "masking": "words", "mask_rate": 0.2}],
                             {"weight_decay": 0.01}),
    # Section 8.4.
    "bioptimus-no-curriculum": ([{**BIOPTIMUS_ALONE, "masking": "tokens", "epochs": 34.0,
                                  "learning_rate": 1e-4}], {"weight_decay": 0.01}),
    # Section 5.5; Shoeybi et al. 2020, 4.2.
    "biomegatron-345m": ([BIOMEGATRON], BIOMEGATRON_RUN),
    "biomegatron-800m": ([BIOMEGATRON], {**BIOMEGATRON_RUN, "activation_checkpointing": True}),
    "biomegatron-1.2b": ([BIOMEGATRON], {**BIOMEGATRON_RUN, "activation_checkpointing": True}),
    # Section 6.1; section 2.3; section 2.4.
    "pubmedbert": ([{**PUBMEDBERT, "mask_rate": 0.15, "mask_rate_end": 0.0}],
                   {"adversarial": None}),
    "pubmedbert-mask-schedule": ([{**PUBMEDBERT, "mask_rate": 0.05, "mask_rate_end": 0.25,
                                   "mask_rate_steps": 5}], {}),
    "pubmedbert-adversarial": ([{**PUBMEDBERT, "mask_rate": 0.15}],
                               {"adversarial": 10.0, "adversarial_noise": 1e-5,
                                "adversarial_step": 1e-3}),
    # The model card.
    "clm-detour": ([{**DETOUR, "objective": "causal", "tokens": 50_000_000_000,
                     "schedule": "constant"},
                    {**DETOUR, "objective": "masked", "tokens": 5_000_000_000, "mask_rate": 0.15,
                     "schedule": "wsd", "decay_ratio": 1.0, "min_lr_ratio": 0.1}],
                   {"adam_beta1": 0.9, "adam_beta2": 0.98, "precision": "bf16"}),
}
# Weights of the losses: masked tokens, KL, cosine, logits, hidden states, relations.
LOSSES = {"biolm-distill": (5, 2, 0), "biolm-distill-align": (5, 2, 1),
          "distilbert": (2, 5, 1)}
STARTS = {**dict.fromkeys(("drbert", "bsc-bio-es"), "roberta-base"),
          "biolm-base": "roberta-base", "biolm-large": "roberta-large", "pubmedbert": "bert-base",
          "pubmedbert-adversarial": "bert-base", "pubmedbert-mask-schedule": "bert-base",
          "biomegatron-345m": "megatron-bert-345m", "biomegatron-800m": "megatron-bert-800m",
          "bioptimus-scratch": "bert-base", "laptop": "bert-2x256"}
# Settings whose values are ours, in the order of the file.
OURS = {
    "bioptimus-words": ["dropout", "mask_replace_prob", "epochs", "max_length", "min_lr_ratio"],
    "bsc-bio-es": ["positions", "epochs"],
    "camembert-bio": ["optimizer", "mask_rate", "max_length", "batch_size", "learning_rate",
                      "schedule", "warmup_ratio"],
    "christbert": ["mask_rate", "batch_size"], "drbert": ["positions"],
    "medbit-or": ["mixout", "max_grad_norm"], "medbit-r3": ["max_grad_norm"],
    "biobit": ["adam_epsilon", "max_grad_norm", "steps", "max_length", "batch_size",
               "learning_rate"]}


def test_every_recipe_is_in_the_table() -> None:
    assert recipe_names() == list(NAMES)
    assert {*PAPERS, "laptop"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_recipe_has_a_title_and_a_source(name: str) -> None:
    config = load_recipe(name)
    assert config.title and config.notes
    assert config.source.startswith(AUTHORS[name.partition("-")[0]])
    assert config.architecture == STARTS.get(name, "")
    assert ("--tokenizer" if config.architecture else "--model") in " ".join(config.notes)
    if config.architecture and name != "laptop":
        assert config.run["positions"] == "random"
    assert parse_run_config(to_toml(config).encode(), name) == config


@pytest.mark.parametrize("name", sorted({*NAMES} - {"laptop"}))
def test_values_that_a_paper_does_not_state_are_marked(name: str) -> None:
    text = recipe_text(name)
    assert "# silent" not in text
    marked = [line.partition(" =")[0] for line in text.splitlines() if "# ours" in line]
    assert marked == OURS.get(name, marked)


@pytest.mark.parametrize("name", PAPERS)
def test_values_equal_the_papers(name: str) -> None:
    config = load_recipe(name)
    phases, run = PAPERS[name]
    assert len(config.phases) == len(phases)
    for values, expected in zip(resolved(config)["phases"], phases, strict=True):
        assert {key: values[key] for key in expected} == expected
    assert {key: config.run.get(key) for key in run} == run


@pytest.mark.parametrize("name", NAMES)
def test_only_recipes_of_distillation_have_losses(name: str) -> None:
    run = load_recipe(name).run
    given = {key: run[key] for key in run if key in (field.name for field in
                                                     fields(DistillationConfig))}
    assert bool(given) == (name in LOSSES)
    if name in LOSSES:
        settings = DistillationConfig(**given)
        assert (settings.mlm_weight, settings.kl_weight, settings.cosine_weight) == LOSSES[name]
        assert settings.temperature == 2
        assert settings.kl_positions == ("all" if name == "distilbert" else "masked")


def test_phases_of_bioptimus_share_one_straight_line_of_34_epochs() -> None:
    phases = load_recipe("bioptimus").phases
    assert sum(phase.length.epochs for phase in phases) == 34
    peak = 0.06 * 34
    assert phases[0].learning_rate.warmup_ratio * 7 == pytest.approx(peak, rel=1e-3)
    assert [phase.learning_rate.warmup_ratio for phase in phases[1:]] == [0, 0, 0]
    rates = [(phase.learning_rate.learning_rate, phase.learning_rate.learning_rate
              * phase.learning_rate.min_lr_ratio) for phase in phases]
    borders = [1e-4 * (34 - epoch) / (34 - peak) for epoch in (7, 15, 24)]
    assert [last for _, last in rates[:-1]] == pytest.approx(borders, rel=1e-3)
    assert [first for first, _ in rates[1:]] == pytest.approx(borders, rel=1e-3)
    assert (rates[0][0], rates[-1][1]) == (1e-4, 0)
