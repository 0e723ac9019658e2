"""The arena: aggregation rules against attacks, and which rule survives what.

grid       the cells of an arena: a rule, an attack, and the runs that decide between them
results    final accuracies of the cells, and which pushes the rules used
stored     arenas found among stored runs
verdict    the same in words
tables     the same as CSV and JSON
pictures   heat maps, and the curves behind the cells
"""

RULES = (  # by default
    *("mean", "trimmed-mean", "median", "geometric-median", "phocas", "multi-krum"),
    *("nnm+trimmed-mean", "centered-clipping"),
)
ATTACKS = ("label-flip", "label-flip:start=pulled", "alie", "ipm", "min-max", "sign-flip")
