"""The claims with verdicts, rules and decisive numbers, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

from slsgd_mx.claims import CLAIMS, FAILS, HOLDS, OPEN, THEORY, from_json, judge_all, to_json
from slsgd_mx.claims.report import decisive, in_numbers, tally
from slsgd_mx.errors import RunError
from slsgd_mx.figures.variants import Variant
from slsgd_mx.report.pictures import made_up, seeds_in_words
from slsgd_mx.system.files import read_text

ELSEWHERE = (
    f" {THEORY[0]} to {THEORY[-1]}, on the theorems, are judged on the tables of slsgd-mx theory: "
    "the repository has their numbers in figures/theory and their verdicts in docs/theory.md."
)
VERDICTS = (HOLDS, FAILS, OPEN)


def from_runs(home: Path, variant: Variant) -> Dict[str, Any]:
    """The claims judged on the runs of a variant."""
    about = {"preset": variant.preset, "seeds": list(variant.seeds)}
    found = entry(to_json(judge_all(home, variant), about), f"{home}: {variant.folder}")
    synthetic = variant.config("cifar").sizes.data == "synthetic"
    return {**found, "note": found["note"] + _warning(synthetic)}


def from_folder(folder: Path, problems: List[str]) -> Optional[Dict[str, Any]]:
    """The claims in claims.json of a folder; None if there is none, or it is damaged."""
    path = Path(folder) / "claims.json"
    if not path.is_file():
        return None
    try:
        found = entry(read_text(path), str(path))
    except RunError as error:
        problems.append(f"{path}: {error}")
        return None
    return {**found, "note": found["note"] + _warning(bool(made_up(folder)))}


def _warning(synthetic: bool) -> str:
    return " Synthetic data: these verdicts only show how claims are judged." if synthetic else ""


def entry(text: str, source: str) -> Dict[str, Any]:
    """What ``claims.to_json`` wrote, as the page shows it."""
    about, found = from_json(text)
    claims = []
    for words, verdict in found:
        check = decisive(verdict)
        now = CLAIMS.get(words["id"])
        changed = now is not None and now.rule != words["rule"]
        claims.append(
            {
                **words,
                "verdict": verdict.verdict,
                "tally": tally(verdict.checks),
                "decisive": "" if check is None else in_numbers(check),
                "missing": len(verdict.missing),
                "changed": changed,
                "checks": [{"verdict": c.verdict, "text": in_numbers(c)} for c in verdict.checks],
            }
        )
    seeds, preset = about.get("seeds"), str(about.get("preset", "unknown preset"))
    which = seeds_in_words(seeds) if isinstance(seeds, list) and seeds else ""
    note = ", ".join(filter(None, [f"Preset {preset}", which])) + "."
    if not {claim["id"] for claim in claims} & set(THEORY):
        note += ELSEWHERE
    return {"source": source, "preset": preset, "note": note, "claims": claims}
