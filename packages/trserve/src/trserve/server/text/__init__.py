"""Text and tokens: vocabulary, chat template, stop strings."""
