"""Read runs back as NumPy arrays, print a table and draw them.

python examples/read_runs.py runs
"""

import sys

from slsgd_mx import load_runs, plot_runs


def main(folder="runs", picture="runs.png"):
    """Print the last accuracy or loss of every finished run in a folder, and draw all of them."""
    runs = [run for run in load_runs(folder) if run.status == "done"]
    for run in runs:
        name = "test_accuracy" if "test_accuracy" in run.columns else "test_loss"
        attack = run.config["attack"] or "no attack"
        last = f"{name} {run.columns[name][-1]:.4f}"
        print(f"{run.config['rule']}, {attack}: {last} ({run.path.name})")
    if runs:
        plot_runs(runs, path=picture)
    return runs


if __name__ == "__main__":
    main(*sys.argv[1:])
