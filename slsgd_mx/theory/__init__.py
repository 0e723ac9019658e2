"""Theorems 1 and 2 and Proposition 1, measured on problems whose constants are known.

Read in this order: ``bounds`` (the paper's, with their constants), ``cases`` (which runs),
``adversary`` (the worst pushes), ``measure`` (one run, through the same ``run_epoch`` and
``ModelServer`` as everything else), ``compute`` (all runs), ``tables`` (where numbers are kept),
``summary`` and ``proof`` (what they mean), ``pictures`` and ``report`` (files and text).
"""

PARTS = ("thm1", "thm2", "prop1")
SEEDS = 12  # of every case by default
