"""The claims with verdicts, rules and decisive numbers, as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

from slsgd_mx.claims import CLAIMS, from_json, judge_all, to_json
from slsgd_mx.claims.report import decisive, in_numbers, tally
from slsgd_mx.errors import RunError
from slsgd_mx.figures.panels import seeds_in_words
from slsgd_mx.figures.variants import Variant
from slsgd_mx.report.pictures import made_up
from slsgd_mx.runs.selection import show
from slsgd_mx.system.files import read_text

THEORY = "Problems of the theory"  # in place of a preset
MADE_UP = "Synthetic data: these verdicts only show how claims are judged."


def from_runs(home: Path, variant: Variant) -> Dict[str, Any]:
    """The claims judged on the runs of a variant."""
    about = {"preset": variant.preset, "seeds": list(variant.seeds), "data": variant.data}
    about["changes"] = {**variant.changes, **({"released": True} if variant.released else {})}
    return entry(to_json(judge_all(home, variant), about), f"{home}: {variant.folder}")


def from_folder(folder: Path, problems: List[str]) -> Optional[Dict[str, Any]]:
    """The claims in claims.json of a folder; None if there is none, or it is damaged."""
    path = Path(folder) / "claims.json"
    if not path.is_file():
        return None
    try:
        return entry(read_text(path), str(path), "synthetic" if made_up(folder) else "")
    except RunError as error:
        problems.append(f"{path}: {error}")
        return None


def entry(text: str, source: str, data: str = "") -> Dict[str, Any]:
    """What ``claims.to_json`` wrote, as the page shows it; ``data`` if the text does not name them.

    Texts of earlier versions do not.
    """
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
    known = isinstance(seeds, list) and seeds and all(type(seed) is int for seed in seeds)
    which = seeds_in_words(seeds) if known else ""
    changes = about.get("changes")
    changes = changes if isinstance(changes, dict) else {}
    words = [THEORY if preset == "theory" else f"Preset {preset}"]
    words += [f"{name}={show(value)}" for name, value in sorted(changes.items())]
    alphas = about.get("alphas")
    words += [f"alphas {' and '.join(map(show, alphas))}"] if isinstance(alphas, list) else []
    words += [f"loss {show(about['loss'])}"] if about.get("loss") else []
    note = ", ".join(filter(None, [*words, which]))
    warning = f" {MADE_UP}" if about.get("data", data) == "synthetic" else ""
    return {"source": source, "preset": preset, "note": f"{note}.{warning}", "claims": claims}
