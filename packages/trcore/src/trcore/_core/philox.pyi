"""Random numbers by position."""

def uniform(seed: int, position: int, stream: int) -> float:
    """A number in [0, 1) that depends on its arguments alone (0 to 2**64 - 1; else TypeError).

    Philox4x64-10 (Salmon et al., SC'11): what numpy's ``Philox(key=seed, counter=[position, stream,
    0, 0])`` gives first, in a fraction of a microsecond.
    """
