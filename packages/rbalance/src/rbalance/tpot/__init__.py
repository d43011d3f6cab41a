"""Time per output token of an instance, from its state: `static`, `xgboost` or `online`."""
