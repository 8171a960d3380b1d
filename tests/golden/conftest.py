import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest tests/golden --update-golden` writes down what is answered now; then read the diff."""
    parser.addoption("--update-golden", action="store_true", help="write down the answers of today")
