#include "eval/stream/record_rate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eval/stream/fixture_stress.h"
#include "eval/stream/stream_folder.h"
#include "model/rwkv7/model.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

TEST(HeadRate, BecomesRarerWithTheLength) {
  const HeadRate rate;
  std::vector<int64_t> found;  // records up to a number of segments
  int64_t count = 0;
  for (int64_t segment = 1; segment <= 4096; ++segment) {
    count += rate.due(segment * 64, 64);
    if (segment == 255 || segment == 511 || segment == 1023 || segment == 4095)
      found.push_back(count);
  }
  EXPECT_EQ(found, (std::vector<int64_t>{255, 255 + 128, 255 + 256, 255 + 512}));
  EXPECT_TRUE(rate.due(256 * 64, 64));
  EXPECT_FALSE(rate.due(257 * 64, 64));
  EXPECT_TRUE(rate.due(257 * 64 + 1, 64));  // a short segment, the last of a run
}

TEST(HeadRate, CanBeFixed) {
  const HeadRate rate{1024};
  EXPECT_FALSE(rate.due(512, 256));
  EXPECT_TRUE(rate.due(1024, 256));
  EXPECT_TRUE(rate.due(1024 * 1001, 256));
  EXPECT_TRUE(rate.due(1030, 256));
}

class StreamRecords : public testing::Test {
 protected:
  test::Scratch scratch_;
  const fs::path path_ = scratch_.path() / "model.safetensors";
  StreamRecords() { test::write_stress_model(path_, 2, {}); }

  void run(const StreamSettings& settings, const std::string& name,
           OnExisting existing = OnExisting::refuse) {
    const Rwkv7 model{Rwkv7Checkpoint(path_), {}};
    const ByteTokenizer tokenizer;
    const test::AlternatingSource source;
    ThreadPool threads(2);
    const StreamParts parts{model, "model", source, tokenizer, {threads}, {}};
    heads_ = int64_t(model.state_layout()->heads().size());
    run_stream(parts, settings, scratch_.path() / name, existing, [](const StreamProgress&) {});
  }
  std::string file(const std::string& folder, const char* name) const {
    return read_file(scratch_.path() / folder / name);
  }
  int64_t heads_ = 0;
};

// What the law says is what is written, and so its word on a model of 0.4B can be taken.
TEST_F(StreamRecords, AreAsLargeAsTheLawSays) {
  StreamSettings settings{.tokens = 9000, .segment = 16, .snapshots = std::vector<int64_t>{}};
  settings.checkpoint_every = 1 << 20;
  for (const int64_t every : {0, 64}) {
    settings.heads_every = every;
    const std::string name = cat("run-", every);
    run(settings, name);
    int64_t bytes = 0;
    for (const char* one : {segments_file, heads_file, losses_file}) {
      const fs::path path = scratch_.path() / name / one;
      probe::RecordHeader header = probe::read_records(path).header;
      const probe::RecordWriter empty(scratch_.path() / "empty", header);
      bytes += int64_t(fs::file_size(path) - empty.bytes());
    }
    EXPECT_EQ(bytes, record_bytes(9000, 16, {every}, heads_));
  }
}

TEST(RecordBytes, OfAHundredMillionTokensAreBelow200Megabytes) {
  const int64_t heads = 24 * 16;  // of a model of 0.4B
  const int64_t bytes = record_bytes(100'000'000, 4096, {}, heads);
  EXPECT_LT(bytes, 200'000'000);
  EXPECT_GT(bytes, 100'000'000);  // a byte for each token
  EXPECT_GT(record_bytes(100'000'000, 4096, {4096}, heads), 1'000'000'000);
}

TEST_F(StreamRecords, OfHeadsAreAsOftenAsAskedFor) {
  StreamSettings settings{.tokens = 2048, .segment = 128, .heads_every = 512, .snapshots = std::vector<int64_t>{}};
  run(settings, "run");
  const auto segments = probe::read_records(scratch_.path() / "run" / segments_file);
  const auto heads = probe::read_records(scratch_.path() / "run" / heads_file);
  EXPECT_EQ(segments.rows, 16);
  ASSERT_EQ(heads.rows, 4 * heads_);
  EXPECT_EQ(heads.integers("position")[size_t(heads_)], 1024);
  EXPECT_EQ(heads.setting("heads_every"), "512 tokens");
  for (size_t i = 0; i < size_t(heads.rows); ++i) EXPECT_LE(heads.reals("below_0.1")[i], 1);
  settings.heads_every = 256;
  EXPECT_FAULT(run(settings, "run", OnExisting::resume), Fault::file,
               "heads_every: expected '256 tokens', found '512 tokens'");
  settings.heads_every = 100;
  EXPECT_FAULT(run(settings, "other"), Fault::usage, "heads-every: expected a multiple");
}

// Rarer records of heads change nothing else, and a run can stop between two of them.
TEST_F(StreamRecords, OfHeadsDoNotDependOnWhereARunStopped) {
  StreamSettings settings{.tokens = 2048, .segment = 128, .heads_every = 512, .snapshots = std::vector<int64_t>{}};
  settings.checkpoint_every = 128;
  run(settings, "whole");
  for (const int64_t tokens : {384, 640, 1152, 2048}) {
    settings.tokens = tokens;
    run(settings, "parts", OnExisting::resume);
  }
  settings.heads_every = 128;
  run(settings, "all");
  for (const char* name : {segments_file, heads_file, losses_file})
    EXPECT_EQ(file("parts", name), file("whole", name)) << name;
  for (const char* name : {segments_file, losses_file})
    EXPECT_EQ(file("all", name), file("whole", name)) << name;
}

}  // namespace
}  // namespace deltasane
