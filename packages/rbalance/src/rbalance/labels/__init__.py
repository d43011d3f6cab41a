"""Labelled prompts: what predictors are fitted to and judged by."""
