"""tiebench: a reproducible benchmark of tied, untied and decoupled embeddings."""

__version__ = "0.1.0"
