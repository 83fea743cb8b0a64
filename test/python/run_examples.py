"""run_examples.py [torch]: runs the examples in the docstrings of the installed package, and fails where one is wrong.

Without `torch`, those that need no other package than numpy; with it, the others.
"""

import doctest
import importlib
import importlib.util
import os
import pkgutil
import sys

import deltasane

NEEDS_TORCH = ("deltasane.compat", "deltasane.ops._torch", "deltasane.hf", "deltasane.lm_eval")
NEEDS_MORE = {"deltasane.hf": "transformers", "deltasane.lm_eval": "lm_eval"}

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))  # where models/ is
tried = failed = 0
for found in pkgutil.walk_packages(deltasane.__path__, "deltasane."):
    needs_torch = found.name.startswith(NEEDS_TORCH)
    if needs_torch != ("torch" in sys.argv) or found.name.endswith(("._ops", "._engine")):
        continue
    if found.name in NEEDS_MORE and importlib.util.find_spec(NEEDS_MORE[found.name]) is None:
        print(f"{found.name}: not looked at, as {NEEDS_MORE[found.name]} is not installed")
        continue
    results = doctest.testmod(importlib.import_module(found.name))
    tried, failed = tried + results.attempted, failed + results.failed
print(f"{tried} lines of examples, {failed} wrong")
sys.exit(failed > 0 or tried < 9)
