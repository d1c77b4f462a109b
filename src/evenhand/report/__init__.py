"""One self-contained page about one run or several, read from their folders alone. Loads no torch."""

from evenhand.report.page import Inline, build, show, write

__all__ = ["Inline", "build", "show", "write"]
