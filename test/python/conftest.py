import os

# Small tensors: more threads would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
