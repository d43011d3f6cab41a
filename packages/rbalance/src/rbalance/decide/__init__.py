"""The live loop: requests become batches, batches are predicted and decided."""
