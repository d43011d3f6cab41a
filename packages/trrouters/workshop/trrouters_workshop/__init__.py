"""Rebuild the demo pair's small model from the large one: for developers, in no wheel.

One file a step: :mod:`~trrouters_workshop.sample` (the large model writes user turns and answers
by itself), :mod:`~trrouters_workshop.distill` (its first layers, trained to follow it),
:mod:`~trrouters_workshop.export_gguf` (a GGUF with the large model's vocabulary),
:mod:`~trrouters_workshop.agreement` (how often, and how closely, the two agree). In an environment
that ``make setup`` has made::

    python -m trrouters_workshop rebuild-slm --out DIR --tokens 200000 --minutes 15

A step without its library raises :class:`~trrouters.training.extra.TrainingExtraError`. Importing
this package needs nothing.
"""
