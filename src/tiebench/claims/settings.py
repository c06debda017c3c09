"""Settings of the ledger of claims."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from tiebench.schema import Name, Settings, distinct


class ClaimsSettings(Settings):
    """What decides claims beside this report."""

    reports: Annotated[list[Name], AfterValidator(distinct)] = []
    """Other committed reports (folders of reports/) whose tables decide claims too."""
