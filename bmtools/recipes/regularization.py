"""Settings of what holds training back: rates by depth, the start, an adversary; importing this
costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require

NORMS = ("inf", "l2")


@dataclass(frozen=True)
class RegularizationConfig:
    """What keeps a model from forgetting what it knew at the start of the run.

    Buonocore et al. 2023 (BioBIT), table 2, take a layer decay of 0.9 or 0.95 and a mixout of 0.9.

    Args:
        layer_decay: each layer learns at this share of the rate of the layer above it, embeddings
            slowest of all; 1 lets all learn alike.
        mixout: probability with which an input of a layer's matrix meets the weights of the start
            instead of those in training, drawn at each step; 0 for none.
        l2_sp: strength of the pull of all weights towards the start, half of it times their
            squared distance being added to the loss; 0 for none.
    """

    layer_decay: float = 1.0
    mixout: float = 0.0
    l2_sp: float = 0.0

    def __post_init__(self) -> None:
        require(0 < self.layer_decay <= 1, "--layer-decay", self.layer_decay,
                "above 0, at most 1")
        require(0 <= self.mixout < 1, "--mixout", self.mixout, "0 to less than 1")
        require(self.l2_sp >= 0, "--l2-sp", self.l2_sp, "0 or more")

    @property
    def needs_start(self) -> bool:
        """Whether weights of the start must be kept."""
        return self.mixout > 0 or self.l2_sp > 0


@dataclass(frozen=True)
class AdversarialConfig:
    """An adversary that moves word embeddings while a masked language model trains.

    The code of Liu et al. 2020 (ALUM) has a weight of 10, a noise of 1e-5, one step of 1e-3 and
    the norm inf. Gu et al. 2021 (PubMedBERT), table 9, found most tasks slightly worse with it.

    Args:
        adversarial: weight of the divergence between predictions with and without the adversary;
            0 for none. A step then takes nearly three times as long.
        adversarial_noise: standard deviation of the noise it starts from, in the units of
            embeddings; what bf16 cannot tell from nothing gives it no direction.
        adversarial_steps: steps it climbs.
        adversarial_step: length of a step for each token.
        adversarial_radius: how far it may move a token in all.
        adversarial_norm: what lengths are measured in: inf (largest element) or l2.
    """

    adversarial: float = 0.0
    adversarial_noise: float = 1e-3
    adversarial_steps: int = 1
    adversarial_step: float = 1e-3
    adversarial_radius: float = 1e-3
    adversarial_norm: str = "inf"

    def __post_init__(self) -> None:
        require(self.adversarial >= 0, "--adversarial", self.adversarial, "0 or more")
        require(self.adversarial_noise > 0, "--adversarial-noise", self.adversarial_noise,
                "above 0: without noise the divergence has no slope")
        require(self.adversarial_steps >= 1, "--adversarial-steps", self.adversarial_steps,
                "1 or more")
        require(self.adversarial_step > 0, "--adversarial-step", self.adversarial_step,
                "above 0")
        require(self.adversarial_radius > 0, "--adversarial-radius", self.adversarial_radius,
                "above 0")
        require(self.adversarial_norm in NORMS, "--adversarial-norm", self.adversarial_norm,
                " or ".join(NORMS))
