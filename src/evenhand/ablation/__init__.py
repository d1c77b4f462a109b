"""Controlled comparisons: arms × seeds from one configuration, each run a process of its own, compared over seeds."""
