"""Where trials run. To add an engine: one file with an ``Engine``, one entry in ``ENGINES``."""

from collections.abc import Mapping

from evenhand.ablation.engines.engine import Engine
from evenhand.ablation.engines.local import LocalEngine
from evenhand.ablation.engines.ray_cluster import RayEngine

__all__ = ["ENGINES", "Engine", "LocalEngine", "RayEngine"]

ENGINES: Mapping[str, type[Engine]] = {"local": LocalEngine, "ray": RayEngine}
