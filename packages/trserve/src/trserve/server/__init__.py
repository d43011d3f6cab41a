"""`trserve launch`: one group of models behind HTTP."""
