"""Where the printed figures are kept."""

from pathlib import Path

PUBLISHED_RESULTS = Path(__file__).with_name("results.yaml")
"""Of evaluations (Chung et al. 2021)."""
PUBLISHED_ALIGNMENT = Path(__file__).with_name("alignment.yaml")
"""Of tables compared (Lopardo et al. 2026)."""
PUBLISHED_PARAMETERS = Path(__file__).with_name("parameters.yaml")
"""Of parameter counts and shares."""
PUBLISHED_RECURRENT = Path(__file__).with_name("recurrent.yaml")
"""Of recurrent language models (Press & Wolf 2017, Inan et al. 2017)."""
PUBLISHED_SUBSPACES = Path(__file__).with_name("subspaces.yaml")
"""Of the subspace experiment (Inan et al. 2017)."""
