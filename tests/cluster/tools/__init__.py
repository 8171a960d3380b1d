"""The programs of a real cluster, built from Go modules on first use, kept outside the checkout."""

from tests.cluster.tools.build import ToolError, ensure, folder

__all__ = ["ToolError", "ensure", "folder"]
