import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `pytest tests/golden --update-golden` write down what is answered now."""
    parser.addoption("--update-golden", action="store_true", help="write down the answers of today")
