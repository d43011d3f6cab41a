"""Train routers for a pair of models; rebuild the demo pair's small model from the large one.

A router: :mod:`~trrouters.training.collect` (the large model answers prompts, the small one is
watched), :mod:`~trrouters.training.train_router`, :mod:`~trrouters.training.calibrate` (its
threshold), :mod:`~trrouters.training.evaluate`; see ``docs/routers.md``. As a program::

    trrouters collect --pair smol-rstitch --prompts prompts.txt --out rows
    trrouters train r2r --data rows --out my-router

The small model, one file a step: :mod:`~trrouters.training.sample` (the large model writes user
turns and answers by itself), :mod:`~trrouters.training.distill` (its first layers, trained to
follow it), :mod:`~trrouters.training.export_gguf` (a GGUF with the large model's vocabulary),
:mod:`~trrouters.training.agreement` (how often, and how closely, the two agree). As a program::

    trrouters rebuild-slm --out DIR --tokens 200000 --minutes 15

Needs ``pip install 'trrouters[training]'``; a step without its library raises
:class:`~trrouters.training.extra.MissingExtraError`. Importing this package needs nothing.
"""
