"""Rebuild the demo pair's small model from the large one alone, and measure the two together.

Steps, one file each: :mod:`~trrouters.training.sample` (the large model writes user turns and
answers by itself), :mod:`~trrouters.training.distill` (its first layers, trained to follow it),
:mod:`~trrouters.training.export_gguf` (a GGUF with the large model's vocabulary),
:mod:`~trrouters.training.agreement` (how often, and how closely, the two agree). As a program::

    python -m trrouters.training rebuild-slm --out DIR --tokens 200000 --minutes 15

Needs ``pip install 'trrouters[training]'``; a step without its library raises
:class:`~trrouters.training.extra.MissingExtraError`. Importing this package needs nothing.
"""
