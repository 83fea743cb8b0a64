#!/usr/bin/env python3
"""make.py FOLDER: the same chats as lines, compressed lines and Parquet, and lines that unpack to far too much.
zstd comes from Debian's program of that name; pyarrow 26.0.1 wrote the file of Parquet that is kept here."""
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1])
rows = [{"messages": [{"role": "user", "content": f"What is {i} + {i}?\n\nThink."},
                      {"role": "assistant", "content": f"<think>\ntwice {i}\n\nis {2 * i}\n</think>\n{2 * i}"}],
         "source": "made"} for i in range(40)]
lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
(folder / "chats.jsonl").write_bytes(lines)
(folder / "chats.jsonl.gz").write_bytes(gzip.compress(lines[:500], mtime=0) + gzip.compress(lines[500:], mtime=0))
pq.write_table(pa.Table.from_pylist(rows), folder / "chats.parquet", row_group_size=16, compression="zstd",
               store_schema=False)
pq.write_table(pa.Table.from_pylist(rows[:3]), folder / "plain.parquet", compression="none", store_schema=False)
pack = lambda data: subprocess.run(["zstd", "-19", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
(folder / "chats.jsonl.zst").write_bytes(pack(lines[:700]) + pack(lines[700:]))
(folder / "bomb.jsonl.zst").write_bytes(pack(b"\n" * (100 << 20)))
