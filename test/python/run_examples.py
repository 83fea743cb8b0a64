"""Runs the examples in the docstrings of the installed package, and fails where one is wrong."""

import doctest
import importlib
import os
import pkgutil
import sys

import deltasane

NEEDS_MORE = ("deltasane.compat", "deltasane.hf", "deltasane.lm_eval", "deltasane.ops._torch")  # torch and others

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))  # where models/ is
tried = failed = 0
for found in pkgutil.walk_packages(deltasane.__path__, "deltasane."):
    if found.name.startswith(NEEDS_MORE) or found.name.rsplit(".", 1)[1] in ("_ops", "_engine", "__main__"):
        continue
    results = doctest.testmod(importlib.import_module(found.name))
    tried, failed = tried + results.attempted, failed + results.failed
print(f"{tried} lines of examples, {failed} wrong")
sys.exit(failed > 0 or tried < 20)
