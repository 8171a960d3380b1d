"""Tells the person who waits what is being done."""


def say(text: str, end: str = "\n") -> None:
    """Print at once: the output is read while it is made."""
    print(text, end=end, flush=True)  # noqa: T201
