"""figures/laptop/claims.md is what `claims` writes from the committed archive and tables."""

import subprocess
import sys
from pathlib import Path

LAPTOP = Path(__file__).resolve().parents[2] / "figures" / "laptop"


def without_theory(page):
    """The lines of a page but those of C10 to C12, whose tables are not committed."""
    theory = ("| C10 ", "| C11 ", "| C12 ")
    return [line for line in page.splitlines() if not line.startswith(theory)]


def test_the_committed_page_is_that_of_the_archive(tmp_path):
    call = [sys.executable, "-m", "slsgd_mx", "claims", "--preset", "laptop"]
    call += ["--runs", str(LAPTOP / "runs.tar.gz"), "--tables", str(LAPTOP)]
    subprocess.run([*call, "--figures", str(tmp_path)], check=True, capture_output=True)
    page = without_theory((tmp_path / "claims.md").read_text())
    assert len(page) > 15
    assert page == without_theory((LAPTOP / "claims.md").read_text())
