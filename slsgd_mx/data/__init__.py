"""Data sets: CIFAR-10 and WikiText-2 in every official form, and synthetic stand-ins for both.

| module | what it does |
| --- | --- |
| ``load`` | a data set by name, as a task uses it |
| ``cifar10``, ``wikitext2`` | read the official files or archives (``reading`` finds them) |
| ``archives``, ``safe_pickle``, ``words``, ``numbers`` | decode them in bounded memory |
| ``arrays`` | your own images, from a script or a file |
| ``synthetic``, ``synthetic_text`` | draw stand-ins that need no download |
| ``images``, ``text`` | `ImageData` and `TextData`, which every source returns |
| ``registry``, ``fetch``, ``download`` | download and verify the official archives |
| ``digests`` | what identifies a data set, remembered while its files do not change |

To add a data set, write a module that returns `ImageData` or `TextData` and name it in ``load``; if
it can be downloaded, add its archives to ``registry.DATASETS``.
"""
