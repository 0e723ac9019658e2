"""What came out of an arena: final metrics, and which pushes the rules used; no MXNet."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.arena.grid import CLEAN, Arena, Cell, Measure, Setting, measure_of
from slsgd_mx.config import RunConfig
from slsgd_mx.figures.panels import end_of
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.pushes import Pushes, read_pushes
from slsgd_mx.runs.status import ENDED, Outcome, read_outcome, read_so_far

STUCK = "failed"  # the state of a run that never changed the model


@dataclass(frozen=True)
class Score:
    """The final metrics of a cell, one for each seed that is finished.

    ``poisoned_used`` and ``honest_lost`` are means over the last half of the epochs and the seeds;
    NaN if nothing is poisoned or the pushes are not recorded.  ``attack_success`` is the mean over
    the seeds; NaN if the attack is not measured.
    """

    cell: Cell
    values: Tuple[float, ...] = ()
    diverged: int = 0  # seeds whose model stopped being finite; they count as the worst value
    stuck: int = 0  # seeds in which too few pushes were left to change the model
    poisoned_used: float = math.nan
    honest_lost: float = math.nan
    attack_success: float = math.nan

    @property
    def mean(self) -> float:
        """The mean over seeds; NaN if no run is finished."""
        return mean_of(self.values)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for one, infinite if one of several diverged."""
        if len(self.values) < 2:
            return 0.0
        return float(np.std(self.values, ddof=1)) if np.isfinite(self.values).all() else math.inf


@dataclass(frozen=True)
class Board:
    """The scores of one heat map."""

    setting: Setting
    rules: Tuple[str, ...]
    columns: Tuple[str, ...]
    scores: Dict[Tuple[str, str], Score]
    outcomes: Dict[RunConfig, Outcome]
    workload: str = ""  # what is trained and how large it is, in words
    measure: Measure = Measure()
    data: str = ""

    @property
    def seeds(self) -> List[int]:
        return sorted({run.seed for score in self.scores.values() for run in score.cell.runs})

    @property
    def runs_missing(self) -> Tuple[int, int]:
        """How many runs are missing, and how many the cells that are not empty should have."""
        cells = [score for score in self.scores.values() if not score.cell.why_empty]
        due = len(self.seeds) * len(cells)
        return due - sum(len(score.values) for score in cells), due

    @property
    def unfinished(self) -> List[str]:
        """The rules that lack runs, some seeds of a cell or all of them."""
        attacked = [column for column in self.columns if column != CLEAN]
        return [r for r in self.rules if any(self._lacks_runs(self.scores[r, c]) for c in attacked)]

    def _lacks_runs(self, score: Score) -> bool:
        return not score.cell.why_empty and len(score.values) < len(self.seeds)

    def why_empty(self, rule: str) -> str:
        """Why a rule has empty cells, such as a b that is illegal; "" if it has none."""
        reasons = {self.scores[rule, column].cell.why_empty for column in self.columns}
        return "; ".join(sorted(filter(None, reasons)))

    def spared(self, rule: str) -> List[str]:
        """The attacks that are illegal for a rule, but not for all."""
        return [
            column
            for column in self.columns
            if self.scores[rule, column].cell.why_empty
            and not all(self.scores[other, column].cell.why_empty for other in self.rules)
        ]

    def ends(self, pair: Tuple[str, str]) -> List[str]:
        """How far the runs of a cell got; one that only other cells have is missing."""
        runs = self.scores[pair].cell.runs
        lacking = len(self.seeds) - len(runs)
        return [*(end_of(self.outcomes[run]) for run in runs), *["missing"] * lacking]

    def worst(self, rule: str) -> Optional[Score]:
        """A rule's score under the attack that does it most harm; None if one is missing."""
        scores = [self.scores[rule, attack] for attack in self.columns if attack != CLEAN]
        known = [score for score in scores if not score.cell.why_empty]
        if not known or any(math.isnan(score.mean) for score in known):
            return None
        worst = min if self.measure.rises else max
        return worst(known, key=lambda score: score.mean)


def read_boards(arena: Arena, home: Path) -> List[Board]:
    """The scores of an arena from the runs that are finished, one board for each setting."""
    index = RunIndex(home)
    folders = {run: index.folder(run) for run in arena.runs()}
    outcomes = {run: _end(run, index) for run in folders}
    boards, measure = [], measure_of(arena.sizes.metrics)
    for setting in arena.settings:
        scores = {
            (cell.rule, cell.attack): score_cell(cell, outcomes, folders, measure)
            for cell in arena.cells(setting)
        }
        known = (setting, arena.rules, arena.columns, scores, outcomes)
        boards.append(Board(*known, measure=measure, data=next(iter(outcomes)).sizes.data))
    return boards


def read_end(folder: Path, run: RunConfig) -> Outcome:
    """How far a run got; one that never changed the model has rows, those of x_0."""
    outcome = read_outcome(folder, run)
    return replace(outcome, rows=read_so_far(folder, run)) if outcome.state == STUCK else outcome


def _end(run: RunConfig, index: RunIndex) -> Outcome:
    """How far a run got; one whose prefix never changed the model never begins, and is the same."""
    outcome, prefix = read_end(index.folder(run), run), prefix_of(run)
    if outcome.state == "missing" and prefix is not None:
        first = read_end(index.folder(prefix), prefix)
        return first if first.state == STUCK else outcome
    return outcome


def has_ended(outcome: Outcome) -> bool:
    return outcome.state in ENDED or bool(outcome.state == STUCK and outcome.rows)


def final_value(outcome: Outcome, measure: Measure) -> float:
    """The last value of a run that has ended; the worst one if it diverged."""
    return (
        measure.diverged if outcome.state == "diverged" else float(outcome.rows[-1][measure.name])
    )


def score_cell(
    cell: Cell,
    outcomes: Dict[RunConfig, Outcome],
    folders: Dict[RunConfig, Path],
    measure: Measure,
) -> Score:
    """The score of a cell from those of its runs that are finished."""
    ended = [run for run in cell.runs if has_ended(outcomes[run])]
    last = [outcomes[run].rows[-1] for run in ended if outcomes[run].state != "diverged"]
    pushes = {run: late_half(read_pushes(folders[run])) for run in ended}
    return Score(
        cell,
        **ends_of([outcomes[run] for run in ended], measure),
        poisoned_used=mean_of(mean_of(p.poisoned_used for p in rows) for rows in pushes.values()),
        honest_lost=mean_of(mean_of(p.honest_lost for p in rows) for rows in pushes.values()),
        attack_success=mean_of(float(row.get("attack_success", "nan")) for row in last),
    )


def ends_of(ended: Sequence[Outcome], measure: Measure) -> Dict[str, Any]:
    """Fields of a score: the final values, and how many runs diverged or were stuck."""
    states = Counter(outcome.state for outcome in ended)
    values = tuple(final_value(outcome, measure) for outcome in ended)
    return {"values": values, "diverged": states["diverged"], "stuck": states[STUCK]}


def late_half(rows: Sequence[Pushes]) -> List[Pushes]:
    """The rows of the last half of the epochs that were computed."""
    return [row for row in rows if 2 * row.epoch > rows[-1].epoch]


def mean_of(values) -> float:
    """The mean of those values that are not NaN; NaN if there is none.

    >>> mean_of([0.25, math.nan, 0.75]), mean_of([])
    (0.5, nan)
    """
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def missing_runs(boards: Sequence[Board]) -> List[str]:
    """The runs that are not finished, "slug: state"."""
    outcomes = {run: outcome for board in boards for run, outcome in board.outcomes.items()}
    return [
        f"{run.slug}: {outcome.why or outcome.state}"
        for run, outcome in outcomes.items()
        if not has_ended(outcome)
    ]


def stuck_runs(boards: Sequence[Board]) -> List[str]:
    """The runs that never changed the model, and their prefixes: computing them again is no use."""
    outcomes = {run: outcome for board in boards for run, outcome in board.outcomes.items()}
    stuck = [run for run, outcome in outcomes.items() if outcome.state == STUCK]
    return [run.slug for run in (*stuck, *filter(None, map(prefix_of, stuck)))]
