"""An OpenAI-compatible server for answers that several language models write token by token."""

from importlib.metadata import version

__version__ = version("trserve")

__all__ = ["__version__"]
