"""Errors that say what is wrong, what was found and expected, and how to mend it."""

from __future__ import annotations

from typing import Self


class TiebenchError(Exception):
    """An error a user can act on.

    Args:
        subject: the file or settings key concerned.
        found: what is there.
        expected: what should be there.
        mend: the command or edit that puts it right.
    """

    def __init__(self, subject: object, *, found: str, expected: str, mend: str) -> None:
        self.subject, self.found, self.expected, self.mend = str(subject), found, expected, mend
        super().__init__(f"{subject}: found {found}; expected {expected}. To mend: {mend}")

    def below(self, path: str) -> Self:
        """The same error with its subject, a settings key, prefixed by `path`."""
        subject = f"{path}.{self.subject}"
        return type(self)(subject, found=self.found, expected=self.expected, mend=self.mend)


class SettingsError(TiebenchError):
    """A setting that is unknown, of the wrong type, or impossible in this combination."""


class DataError(TiebenchError):
    """A file or record that is missing, damaged or of another variant than stated."""


class TrainingError(TiebenchError):
    """A run that cannot go on: a loss that is not finite, or a damaged checkpoint."""


class DivergedError(TrainingError):
    """A training whose loss, gradients or weights are no longer finite."""


class WriteError(TiebenchError):
    """A file that cannot be written: no room, or no permission."""


class BusyError(TiebenchError):
    """Another process is at work on the same output."""


class LostError(TiebenchError):
    """Another process of those that train one model together has ended."""
