#!/usr/bin/env python3
"""make.py FOLDER [--large]: Parquet files in many variants, written by pyarrow and DuckDB, each with the rows that
it holds as JSON lines. The small ones are kept beside this script; pyarrow 26.0.1 and DuckDB 2.0.0 wrote those."""
import json
import math
import random
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ["one", "two", "drei", "四", "cinq\n\nsix", 'se"ven', "\\eight", "nine\t", "", "ten 🙂"]


def text(rng, longest=12):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(longest)))


def conversations(rng, rows):
    def turns():
        return [{"from": "human" if i % 2 == 0 else "gpt", "value": text(rng)} for i in range(rng.randrange(5))]
    return [None if rng.random() < 0.1 else turns() for _ in range(rows)]


def messages(rng, rows):
    def turns():
        return [{"role": rng.choice(["system", "user", "assistant"]), "content": None if rng.random() < 0.1 else text(rng)}
                for _ in range(rng.randrange(5))]
    return [turns() for _ in range(rows)]


def flat(rng, rows):
    maybe = lambda value: None if rng.random() < 0.2 else value
    return pa.table({
        "question": pa.array([text(rng) for _ in range(rows)], pa.string()),
        "answer": pa.array([maybe(text(rng)) for _ in range(rows)], pa.large_string()),
        "level": pa.array([maybe(rng.randrange(-100, 100)) for _ in range(rows)], pa.int8()),
        "short": pa.array([rng.randrange(65536) for _ in range(rows)], pa.uint16()),
        "count": pa.array([maybe(rng.randrange(2**32)) for _ in range(rows)], pa.uint32()),
        "id": pa.array([rng.randrange(-2**63, 2**63) for _ in range(rows)], pa.int64()),
        "big": pa.array([maybe(rng.randrange(2**64)) for _ in range(rows)], pa.uint64()),
        "score": pa.array([maybe(rng.random()) for _ in range(rows)], pa.float32()),
        "loss": pa.array([rng.choice([rng.gauss(0, 1e9), math.inf, 0.0]) for _ in range(rows)], pa.float64()),
        "good": pa.array([maybe(rng.random() < 0.5) for _ in range(rows)], pa.bool_()),
        "nothing": pa.array([None] * rows, pa.null()),
        "raw": pa.array([text(rng).encode() for _ in range(rows)], pa.binary()),
    })


def nested(rng, rows):
    turn = lambda a, b: pa.list_(pa.struct([(a, pa.string()), (b, pa.string())]))
    return pa.table({
        "conversations": pa.array(conversations(rng, rows), turn("from", "value")),
        "messages": pa.array(messages(rng, rows), turn("role", "content")),
        "tags": pa.array([None if rng.random() < 0.2 else [text(rng, 2) for _ in range(rng.randrange(4))]
                          for _ in range(rows)], pa.list_(pa.string())),
        "deep": pa.array([[[rng.randrange(9) for _ in range(rng.randrange(3))] for _ in range(rng.randrange(3))]
                          for _ in range(rows)], pa.list_(pa.list_(pa.int32()))),
        "both": pa.array([None if rng.random() < 0.3 else {"a": text(rng), "b": {"c": rng.randrange(5)}}
                          for _ in range(rows)],
                         pa.struct([("a", pa.string()), ("b", pa.struct([("c", pa.int64())]))])),
        "pairs": pa.array([[(f"key {i}", rng.randrange(9)) for i in range(rng.randrange(3))] for _ in range(rows)],
                          pa.map_(pa.string(), pa.int32())),
    })


def sorted_texts(rng, rows):
    return pa.table({"text": pa.array(sorted(text(rng) for _ in range(rows)), pa.string()),
                     "number": pa.array(range(1000, 1000 + rows), pa.int32()),
                     "wide": pa.array([rng.randrange(-2**62, 2**62) for _ in range(rows)], pa.int64())})


def as_json(value):
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return {"key": as_json(value[0]), "value": as_json(value[1])}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    return value


def unread(folder):
    """Files with a type, an encoding or a codec that is not read."""
    folder.mkdir(exist_ok=True)
    write = lambda name, column, **settings: pq.write_table(pa.table({"x": column}), folder / f"{name}.parquet",
                                                            store_schema=False, **settings)
    write("timestamp", pa.array([1, 2], pa.timestamp("us")))
    write("decimal", pa.array([1, 2], pa.decimal128(5)))
    write("fixed", pa.array([b"ab", b"cd"], pa.binary(2)))
    write("brotli", pa.array(["a", "b"]), compression="brotli")
    write("split", pa.array([1.0, 2.0]), use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT", compression="none")


def main():
    folder, large = Path(sys.argv[1]), "--large" in sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, table, **settings):
        pq.write_table(table, folder / f"{name}.parquet", store_schema=False, write_statistics=large, **settings)
        keep(name, table)

    def keep(name, table):
        rows = [json.dumps(as_json(row), ensure_ascii=False) + "\n" for row in table.to_pylist()]
        (folder / f"{name}.jsonl").write_text("".join(rows))

    def copy(name, table, settings):
        duckdb.register("rows", table)
        duckdb.sql(f"COPY rows TO '{folder / name}.parquet' (FORMAT parquet, {settings})")
        keep(name, table)

    rng, rows = random.Random(1), 3000 if large else 12
    for codec in ["none", "snappy", "gzip", "zstd", "lz4"]:
        for version in ["1.0", "2.0"]:
            write(f"flat_{codec}_{version[0]}", flat(rng, rows), compression=codec, data_page_version=version,
                  write_page_checksum=codec == "zstd")
    for version in ["1.0", "2.0"]:
        write(f"nested_{version[0]}", nested(rng, rows), data_page_version=version, write_page_checksum=True)
        write(f"nested_plain_{version[0]}", nested(rng, rows), data_page_version=version, use_dictionary=False,
              compression="none")
        write(f"delta_{version[0]}", sorted_texts(rng, 12 * rows), data_page_version=version, use_dictionary=False,
              column_encoding={"text": "DELTA_BYTE_ARRAY", "number": "DELTA_BINARY_PACKED",
                               "wide": "DELTA_BINARY_PACKED"})
        write(f"delta_length_{version[0]}", sorted_texts(rng, rows), data_page_version=version, use_dictionary=False,
              column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY", "number": "PLAIN", "wide": "PLAIN"})
    write("many_groups", nested(rng, rows), row_group_size=2)
    write("many_pages", nested(rng, 4 * rows), data_page_size=64, write_batch_size=2, use_dictionary=False)
    write("dictionary_overflow", sorted_texts(rng, 10 * rows), dictionary_pagesize_limit=256, data_page_size=128,
          write_batch_size=4)
    write("old_lists", nested(rng, rows).select(["messages", "tags"]), use_compliant_nested_type=False, version="1.0")
    write("empty", nested(rng, 0))
    write("no_columns", pa.table({}))
    write("one_row", nested(rng, 1), compression="zstd")
    write("all_null", pa.table({"text": pa.array([None] * 100, pa.string())}))
    for codec in ["uncompressed", "snappy", "gzip", "zstd", "lz4_raw"]:
        copy(f"duckdb_{codec}", flat(rng, rows).drop(["nothing"]), f"CODEC {codec}")
    copy("duckdb_nested", nested(rng, rows), "CODEC zstd")
    copy("duckdb_v2", sorted_texts(rng, 12 * rows), "PARQUET_VERSION v2, CODEC snappy")
    copy("duckdb_groups", sorted_texts(rng, 6000 if large else 40), "ROW_GROUP_SIZE 2048, CODEC snappy")
    write("checked", sorted_texts(rng, 5), compression="none", use_dictionary=False, write_page_checksum=True)
    unread(folder / "unread")
    if large:
        write("large", nested(rng, 60000), row_group_size=20000, compression="zstd")


main()
