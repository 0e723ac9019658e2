"""The arena: aggregation rules against attacks, and which rule survives what.

grid       the cells of an arena: a rule, an attack, and the runs that decide between them
results    final accuracies of the cells, tables, and a verdict in words
pictures   the heat map, and the curves behind its cells
"""
