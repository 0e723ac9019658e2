"""What an arena shows, in words; no MXNet."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Dict, List, Sequence

from slsgd_mx.arena.grid import CLEAN, Measure, Setting
from slsgd_mx.arena.results import Board, Score


def verdict(board: Board) -> List[str]:
    """The rule with the best worst case, and the strongest attack on each rule."""
    worst = {rule: board.worst(rule) for rule in board.rules}
    known = {rule: score for rule, score in worst.items() if score is not None}
    lines, show, unfinished = [], board.measure.show, board.unfinished
    if known:
        best = {rule: known[rule] for rule in best_of(known, board.measure)}
        so_far = " so far" * bool(unfinished)
        if not {*unfinished} <= {*known}:
            so_far += f", of {len(known)} of {len(board.rules)} rules"
        lines.append(f"Best worst case{so_far}: {_in_words(best, board.measure)}.")
    for rule, score in known.items():
        clean = board.scores[rule, CLEAN].mean
        spared = " and ".join(board.spared(rule))
        are = "are" if " and " in spared else "is"
        lines.append(
            f"{rule}: the strongest attack is {score.cell.attack}, {show(score.mean)}"
            + ("" if math.isnan(clean) else f" ({show(clean)} without attack)")
            + (
                f"; {spared} {are} illegal for it, so its worst case is over fewer attacks"
                * bool(spared)
            )
        )
    unharmed = sorted(rule for rule, score in known.items() if _is_unharmed(rule, score, board))
    if unharmed:
        lines.append(
            f"No attack worsens the {board.measure.words} of {' and '.join(unharmed)}: the runs "
            "learned too little, or the attacks are too weak, to show what survives"
        )
    for (rule, attack), score in board.scores.items():
        if score.stuck:
            cell = f"{rule} under {attack}" if attack != CLEAN else f"{rule} without attack"
            lines.append(
                f"{cell}: too few pushes were left, so no epoch changed the model"
                + f" in {score.stuck} of {len(score.values)} seeds" * (len(score.values) > 1)
            )
    missing, due = board.runs_missing
    if missing:
        seeds = ": a mean is over the seeds that are there" if len(board.seeds) > 1 else ""
        lines.append(f"{missing} of {due} runs are missing{seeds}")
    for rule in board.rules:
        if rule not in known:
            why = "runs are missing" if rule in unfinished else board.why_empty(rule)
            lines.append(f"{rule}: no verdict, {why}")
    return lines


def _is_unharmed(rule: str, worst: Score, board: Board) -> bool:
    """Whether a rule ends no worse under its worst attack than without attack."""
    clean = board.scores[rule, CLEAN].mean
    return not math.isnan(clean) and not board.measure.is_better(clean, worst.mean)


def best_of(worst: Dict[str, Score], measure: Measure) -> List[str]:
    """The rules with the best worst case: several if they are equal in the digits shown."""
    shown = {rule: measure.show(score.mean) for rule, score in worst.items()}
    best = (max if measure.rises else min)(shown.values(), key=float, default="")
    return [rule for rule in worst if shown[rule] == best]


def _in_words(best: Dict[str, Score], measure: Measure) -> str:
    """The best rules, which are equal, with their metric and the attacks on them."""
    value = measure.show(next(iter(best.values())).mean)
    attacks = {score.cell.attack for score in best.values()}
    if len(attacks) == 1:
        return f"{' and '.join(best)}, {value} under {attacks.pop()}"
    pairs = [f"{rule} (under {score.cell.attack})" for rule, score in best.items()]
    return f"{' and '.join(pairs)}, {value}"


def compare_alphas(boards: Sequence[Board]) -> List[str]:
    """What the moving average changes: a line for each two or more boards that differ in alpha."""
    groups: Dict[Setting, List[Board]] = {}
    for board in boards:
        groups.setdefault(replace(board.setting, alpha=0.0), []).append(board)
    lines = []
    for members in groups.values():
        usual, *others = sorted(members, key=lambda board: -board.setting.alpha)
        lines += [line for other in others for line in _compare(usual, other)]
    return lines


def _compare(usual: Board, other: Board) -> List[str]:
    """The line for two boards; none if no rule has a worst case in both, or alpha never acts."""
    pairs = {rule: (usual.worst(rule), other.worst(rule)) for rule in usual.rules}
    both = {rule: pair for rule, pair in pairs.items() if None not in pair}
    if not both or all(one.cell.runs == two.cell.runs for one, two in both.values()):
        return []
    bests = []
    for number, board in enumerate((other, usual)):
        worst = {rule: pair[1 - number] for rule, pair in both.items()}
        best = best_of(worst, board.measure)
        with_alpha = f"with alpha={board.setting.alpha:g} ({' and '.join(best)})"
        bests.append(f"{board.measure.show(worst[best[0]].mean)} {with_alpha}")
    better = sum(usual.measure.is_better(a.mean, b.mean) for b, a in both.values())
    setting = usual.setting
    return [
        f"Moving average ({setting.partition}, {setting.threat}, b={setting.b}): the best worst "
        f"case is {bests[0]}, {bests[1]}; alpha={other.setting.alpha:g} improves the worst case of "
        f"{better} of {len(both)} rules."
    ]
