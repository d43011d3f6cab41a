"""Train routers for a pair of models.

:mod:`~trrouters.training.collect` (the large model answers prompts, the small one is watched),
:mod:`~trrouters.training.train_router`, :mod:`~trrouters.training.calibrate` (its threshold),
:mod:`~trrouters.training.evaluate`; ``docs/routers.md`` goes through all of it. As a program::

    trrouters collect --pair smol-rstitch --prompts prompts.txt --out rows
    trrouters train r2r --data rows --out my-router

Needs ``pip install 'trrouters[training]'``; a step without its library raises
:class:`~trrouters.training.extra.TrainingExtraError`. Importing this package needs nothing.
"""
