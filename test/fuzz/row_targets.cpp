#include <xxhash.h>

#include <array>

#include "base/error.h"
#include "corpus/rows/render.h"
#include "corpus/rows/unpacked_size.h"
#include "eval/suite/own_suite.h"
#include "eval/suite/rows.h"
#include "format/codec/codec.h"
#include "format/parquet/parquet.h"
#include "fuzz/memory_file.h"
#include "fuzz/targets.h"

namespace deltasane::fuzz {
namespace {

class Digest {
 public:
  void add(std::string_view text) { sum_ = XXH3_64bits_withSeed(text.data(), text.size(), sum_); }
  uint64_t value() const { return sum_; }

 private:
  uint64_t sum_ = 0;
};

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint64_t digest(const std::vector<eval::Benchmark>& benchmarks) {
  Digest sum;
  for (const eval::Benchmark& benchmark : benchmarks)
    for (const eval::Problem& problem : benchmark.problems) {
      sum.add(eval::asked(benchmark, problem));
      sum.add(problem.gold);
    }
  return sum.value();
}

}  // namespace

Meaning parquet(Bytes bytes) {
  const ParquetFile file(bytes, "file");
  corpus::UnpackedSize size("file", bytes.size());
  Digest sum;
  for (size_t group = 0; group < file.groups(); ++group)
    file.read_group(
        group, [](std::string_view) { return true; },
        [&](std::string_view row) {
          size.add(row.size());
          sum.add(row);
        });
  return sum.value();
}

// The first byte names the codec; two more the size of a block.
Meaning codec(Bytes bytes) {
  constexpr std::array blocks{Codec::none, Codec::snappy, Codec::gzip,
                              Codec::zstd, Codec::lz4,    Codec::hadoop_lz4};
  constexpr std::array streams{Codec::gzip, Codec::zstd};
  if (bytes.size() < 3) return std::nullopt;
  const size_t which = size_t(bytes[0]) % (blocks.size() + streams.size());
  const Bytes packed = bytes.subspan(3);
  Digest sum;
  if (which < blocks.size()) {
    std::vector<std::byte> room;
    const size_t length = size_t(bytes[1]) | size_t(bytes[2]) << 8;
    sum.add(text_of(decompress_block(blocks[which], packed, length, room, "file")));
  } else {
    corpus::UnpackedSize size("file", packed.size());
    decompress_stream(streams[which - blocks.size()], packed, "file", [&](Bytes piece) {
      size.add(piece.size());
      sum.add(text_of(piece));
    });
  }
  return sum.value();
}

Meaning chat_rows(Bytes bytes) {
  static const auto recognised = corpus::recognising_renderer();
  static const auto filled = corpus::template_renderer("{question} {answer}\n",
                                                       corpus::LearnedPart::last_field);
  Digest sum;
  bool used = false;
  for (const corpus::RowRenderer* renderer : {recognised.get(), filled.get()}) {
    const corpus::RenderedRow row = renderer->render(text_of(bytes));
    used = used || !row.dropped;
    sum.add(row.piece.text);
    size_t end = 0;
    for (const corpus::Span& learned : row.piece.learned) {
      require(learned.begin >= end && learned.end >= learned.begin, "spans are sorted");
      end = learned.end;
    }
    require(end <= row.piece.text.size(), "spans are inside of the text");
  }
  if (!used) return std::nullopt;
  return sum.value();
}

Meaning problems(Bytes bytes) {
  const MemoryFile file(bytes);
  Digest sum;
  bool any = false;
  using enum eval::QuestionRule;
  using enum eval::GoldRule;
  for (const auto& rule : {eval::RowRule{{"question"}, "answer", joined, after_hashes},
                           eval::RowRule{{"a", "question"}, "answer", sentences, last_box},
                           eval::RowRule{{"question"}, "answer", with_options, as_written},
                           eval::RowRule{{"question"}, "answer", question_mark, without_dollars}}) {
    eval::Benchmark benchmark;
    benchmark.instruction = "{question}";
    try {
      eval::read_rows(file.path(), rule, 0, benchmark);
      any = true;
    } catch (const Error&) {  // another rule may read it
    }
    const uint64_t found = digest({benchmark});
    sum.add({reinterpret_cast<const char*>(&found), sizeof found});
  }
  if (!any) return std::nullopt;
  return sum.value();
}

Meaning suite(Bytes bytes) {
  const MemoryFile file(bytes);
  return digest(eval::open_own_suite(file.path(), {.folder = "/nonexistent"}));
}

}  // namespace deltasane::fuzz
