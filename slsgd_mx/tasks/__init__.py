"""Workloads: one folder each, with its sizes, its network and its task.

| file of a workload | what it contains |
| --- | --- |
| ``sizes.py`` | a frozen dataclass: how large a run is, and on which data; imports no MXNet |
| ``network.py`` | the model (``objectives.py`` for the small problems of the theorems) |
| ``task.py`` | a subclass of ``slsgd_mx.core.task.Task``: batches, local SGD, metrics |

To add a workload, write such a folder (``gluon.GluonTask`` does the local SGD of a Gluon network,
``images.task.ImagesTask`` all of a classifier of images), then list it in ``sizes.py``, with the
defaults of its sizes in ``slsgd_mx.frozen.FROZEN_SIZES``.  To add one from outside, see
``slsgd_mx.register_task``.
"""
