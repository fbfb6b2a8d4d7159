from __future__ import annotations

from itertools import product

import pytest
import torch

from bmtools.tasks.crf import Crf, pack

LENGTHS = [5, 1, 3]


def fields(groups: int, labels: int) -> Crf:
    torch.manual_seed(groups)
    allowed = torch.rand(labels, labels) > 0.2
    crf = Crf(groups, allowed.fill_diagonal_(True))
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def batch(groups: int, labels: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    emissions = torch.randn(len(LENGTHS), max(LENGTHS), groups, labels)
    ids = torch.randint(labels, emissions.shape[:-1])
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return emissions, ids, mask


@pytest.mark.parametrize(("groups", "labels"), [(1, 5), (3, 3)])
def test_likelihood_gradient_and_path_are_those_of_pytorch_crf(groups: int, labels: int) -> None:
    torchcrf = pytest.importorskip("torchcrf")
    crf = fields(groups, labels)
    emissions, ids, mask = batch(groups, labels)
    emissions.requires_grad_()
    likelihood = crf.log_likelihood(emissions, ids, mask)
    likelihood.sum().backward()
    paths = crf.viterbi(emissions.detach(), mask)
    for group in range(groups):
        theirs = torchcrf.CRF(labels, batch_first=True)
        with torch.no_grad():
            theirs.start_transitions.copy_(crf.start[group])
            theirs.end_transitions.copy_(crf.end[group])
            theirs.transitions.copy_(crf.transitions[group] + crf.penalties)
        own = emissions.detach()[:, :, group].clone().requires_grad_()
        expected = theirs(own, ids[..., group], mask, reduction="none")
        torch.testing.assert_close(likelihood[:, group], expected, rtol=1e-5, atol=1e-4)
        expected.sum().backward()
        torch.testing.assert_close(emissions.grad[:, :, group], own.grad, rtol=1e-4, atol=1e-5)
        for ours, weight in ((crf.start, theirs.start_transitions),
                             (crf.end, theirs.end_transitions),
                             (crf.transitions, theirs.transitions)):
            torch.testing.assert_close(ours.grad[group], weight.grad, rtol=1e-4, atol=1e-5)
        found = [row[:length].tolist() for row, length in zip(
            paths[..., group], LENGTHS, strict=True)]
        assert found == theirs.decode(own.detach(), mask)


def test_marginals_are_those_of_all_paths() -> None:
    crf = fields(2, 3)
    emissions, _, mask = batch(2, 3)
    found = crf.log_marginals(emissions, mask).exp()
    for row, (length, group) in enumerate([(5, 0), (1, 1), (3, 1)]):
        expected = torch.zeros(length, 3)
        for path in product(range(3), repeat=length):
            ids = torch.tensor(path)[None, :, None].repeat(1, 1, 2)
            chance = crf.log_likelihood(emissions[row:row + 1, :length], ids,
                                        mask[row:row + 1, :length])[0, group].exp()
            for word, label in enumerate(path):
                expected[word, label] += chance
        torch.testing.assert_close(found[row, :length, group], expected, rtol=1e-4, atol=1e-5)


def test_forbidden_transitions_are_in_no_path() -> None:
    crf = fields(1, 4)
    emissions = 9 * torch.randn(200, 6, 1, 4)
    path = crf.viterbi(emissions, torch.ones(200, 6, dtype=torch.bool))[..., 0]
    assert (crf.penalties[path[:, :-1], path[:, 1:]] == 0).all()


def test_marked_positions_are_moved_to_the_beginning() -> None:
    positions, mask = pack(torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]).bool())
    assert mask.tolist() == [[True, True], [False, False], [True, False]]
    assert positions[mask].tolist() == [1, 3, 3]
    assert pack(torch.zeros(2, 3).bool())[0].shape == (2, 1)
