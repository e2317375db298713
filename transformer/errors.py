"""The errors that a user can cause, all of one family.

Every message follows one pattern: which argument, what it must be, what it was, and what to do. The command line and
the app print the message alone; a stack trace is kept for faults of our own.
"""


class TransformerError(Exception):
    """A user's mistake, or a file that cannot be used. ``str(error)`` is one sentence fit to be shown to a person."""


class ConfigError(TransformerError):
    """A configuration value, or a combination of values, that cannot work."""


class DataError(TransformerError):
    """A corpus or text file that is missing, unreadable, or not what it should be."""


class DownloadError(DataError):
    """A named corpus could not be fetched."""


class CheckpointError(TransformerError):
    """A checkpoint that is missing, damaged, or made for another version."""


class InputError(TransformerError):
    """A sentence, or an option of a request, that the model cannot take."""


class TrainingError(TransformerError):
    """Training cannot start or go on."""


def problem(argument: str, rule: str, value: object, remedy: str) -> str:
    """Build an error sentence in the project's one pattern.

    Args:
        argument: what is wrong, as the user named it ("heads", "--beam", "train.de").
        rule: what it must be ("must divide d_model = 128").
        value: what it was; shown with ``repr`` and cut at 80 characters.
        remedy: what to do about it ("choose 2, 4 or 8").
    """
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return f"{argument} {rule}, but it was {shown}: {remedy}."
