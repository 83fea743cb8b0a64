"""What the installed package costs before it is used."""

import subprocess
import sys

IMPORT = """
import os, sys, time
begin = time.process_time()
import deltasane
loaded = [name for name in ("numpy", "torch") if name in sys.modules]
import deltasane.ops
spent = time.process_time() - begin
import deltasane._engine, deltasane.model
print(spent, len(os.listdir("/proc/self/task")), *loaded)
"""


def imported():
    found = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_import_takes_less_than_100_ms():
    """Of the processor: a busy machine takes longer."""
    assert min(float(imported()[0]) for _ in range(3)) < 0.1


def test_import_starts_no_threads_and_loads_neither_numpy_nor_torch():
    _, threads, *loaded = imported()
    assert threads == "1" and loaded == []
