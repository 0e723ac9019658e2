"""One self-contained page about stored runs; no MXNet.

``sources`` finds what there is in folders of runs and of figures, ``charts``, ``boards``,
``verdicts``, ``table`` and ``progress`` turn it into plain data, ``ledger`` adds the differences
between paper and code, and ``page`` puts the data, the style, the program of the page and the
plotting library into one file.  Means, bands, labels and verdicts are those of ``figures``,
``arena`` and ``claims``.
"""
