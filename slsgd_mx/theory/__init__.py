"""Theorems 1 and 2 and Proposition 1, measured on problems whose constants are known.

Read in this order: ``bounds`` (what the paper says, with its constants), ``cases`` (which runs),
``measure`` (one run, through the same ``run_epoch`` and ``ModelServer`` as everything else),
``adversary`` (the worst pushes), ``tables`` (where numbers are kept), ``compute`` (all of it),
``summary``, ``counterexamples`` and ``proof`` (what the numbers say), ``pictures``.
"""

PARTS = ("thm1", "thm2", "prop1")
SEEDS = 12  # of every case, unless told otherwise
