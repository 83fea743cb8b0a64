// Preparing data sets as a user does, and training on them with and without that.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/cat.h"
#include "format/codec/codec.h"
#include "format/npy/indexed_tokens.h"
#include "format/npy/npy.h"
#include "support/process.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"
#include "train/batch_source.h"

namespace deltasane::cli {
namespace {

using Json = nlohmann::json;

class CorpusPrepare : public testing::Test {
 protected:
  test::Outcome shell(const std::string& line) const {
    return test::run({"sh", "-c", cat("cd '", scratch_.path().string(), "' || exit; ", line)});
  }
  test::Outcome prepare(const std::string& words) const {
    return shell(cat("'", DELTASANE_PROGRAM, "' corpus prepare ", words));
  }
  fs::path at(const std::string& name) const { return scratch_.path() / name; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(scratch_.path()))
      all.push_back(entry.path().filename().string());
    std::ranges::sort(all);
    return all;
  }

  static std::string chat(int number) {
    return cat("User: What is ", number, " + ", number, "?\nThink.\n\nAssistant: <think>\ntwice ",
               number, "\n\nis ", 2 * number, "\n</think>\n", 2 * number, "\n\n");
  }

  // Shards of all kinds that this build reads; the texts of their rows in order.
  std::vector<std::string> make_shards() const {
    const fs::path made = fs::path(DELTASANE_SOURCE) / "test/data/rows";
    std::vector<std::string> texts;
    fs::create_directories(at("in/more"));
    replace_file(at("in/a.jsonl"),
                 "{\"prompt\": \"p\", \"response\": \"r\"}\nbroken\n{\"id\": 1}\n"
                 "{\"text\": \"" +
                     std::string(300, 'x') + "\"}\n");
    texts.push_back("User: p\n\nAssistant: r\n\n");
    const auto add = [&](const char* name, const char* as, int rows) {
      fs::copy_file(made / name, at(as));
      for (int i = 0; i < rows; ++i) texts.push_back(chat(i));
    };
    add("plain.parquet", "in/b.parquet", 3);
    if (has_codec(Codec::zstd)) add("chats.jsonl.zst", "in/c.jsonl.zst", 40);
    if (has_codec(Codec::zstd)) add("chats.parquet", "in/d.parquet", 40);
    if (has_codec(Codec::gzip)) add("chats.jsonl.gz", "in/more/e.jsonl.gz", 40);
    return texts;
  }

  std::vector<std::string> rows_of(const std::string& name) const {
    const NpyArray array = open_npy(at(name));
    std::vector<std::string> rows;
    for (int64_t row = 0; row < array.shape[0]; ++row) {
      std::vector<int32_t> ids(size_t(array.shape[1]));
      array.read(row * array.shape[1], ids);
      rows.emplace_back(ids.begin(), ids.end());
    }
    return rows;
  }

  test::Scratch scratch_;
};

TEST_F(CorpusPrepare, WritesOneArrayOfMixedShards) {
  std::vector<std::string> expected = make_shards();
  const test::Outcome outcome =
      prepare("in --tokenizer byte --length 120 --order file --out rows.npy --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  for (std::string& row : expected) row.resize(120, '\0');
  EXPECT_EQ(rows_of("rows.npy"), expected);
  const Json summary = Json::parse(outcome.output);
  EXPECT_EQ(summary["rows"], expected.size());
  EXPECT_EQ(summary["cut"], 0);
  const Json& source = summary["sources"][0];
  EXPECT_EQ(source["rows"], expected.size() + 3);
  EXPECT_EQ(source["kept"], expected.size());
  EXPECT_EQ(source["dropped"],
            (Json{{"not_an_object", 1}, {"too_long", 1}, {"unknown_columns", 1}}));
  EXPECT_EQ(source["parquet_without_checksums"], has_codec(Codec::zstd) ? 2 : 1);
  // The same rows, shuffled: a matter of the seed alone.
  ASSERT_EQ(prepare("in --tokenizer byte --length 120 --seed 5 --out one.npy").exit_code, 0);
  ASSERT_EQ(prepare("in --tokenizer byte --length 120 --seed 5 --out two.npy").exit_code, 0);
  ASSERT_EQ(prepare("in --tokenizer byte --length 120 --seed 6 --out three.npy").exit_code, 0);
  EXPECT_EQ(read_file(at("one.npy")), read_file(at("two.npy")));
  EXPECT_NE(read_file(at("one.npy")), read_file(at("three.npy")));
  std::vector<std::string> shuffled = rows_of("one.npy");
  EXPECT_NE(shuffled, expected);
  std::ranges::sort(shuffled);
  std::ranges::sort(expected);
  EXPECT_EQ(shuffled, expected);
}

TEST_F(CorpusPrepare, CutsLongRowsAndWritesPairsOfFiles) {
  const std::vector<std::string> texts = make_shards();
  const test::Outcome cut =
      prepare("in/a.jsonl --tokenizer byte --length 24 --long cut --order file --out c.npy --json");
  ASSERT_EQ(cut.exit_code, 0) << cut.output;
  EXPECT_EQ(rows_of("c.npy"),
            (std::vector<std::string>{texts[0] + std::string(24 - texts[0].size(), '\0'),
                                      std::string(24, 'x')}));
  EXPECT_EQ(Json::parse(cut.output)["cut"], 1);
  ASSERT_EQ(prepare("in/b.parquet --tokenizer byte --order file --out pair.bin").exit_code, 0);
  const IndexedTokens pair = IndexedTokens::open(at("pair"));
  ASSERT_EQ(pair.items(), 3);
  for (int i = 0; i < 3; ++i) {
    std::vector<int32_t> ids(size_t(pair.item(i).count));
    pair.tokens().read(pair.item(i).first, ids);
    EXPECT_EQ(std::string(ids.begin(), ids.end()), chat(i) + '\0');
  }
}

TEST_F(CorpusPrepare, MixesByWeights) {
  std::string ones, twos;
  for (int i = 0; i < 900; ++i) ones += cat("{\"text\": \"1 ", i, "\"}\n");
  for (int i = 0; i < 200; ++i) twos += cat("{\"text\": \"2 ", i, "\"}\n");
  replace_file(at("ones.jsonl"), ones);
  replace_file(at("twos.jsonl"), twos);
  const test::Outcome outcome = prepare(
      "ones.jsonl twos.jsonl --weights 3,1 --tokenizer byte --length 16 --out mixed.npy --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  std::vector<std::string> rows = rows_of("mixed.npy");
  const auto first = std::ranges::count_if(rows, [](const auto& row) { return row[0] == '1'; });
  EXPECT_NEAR(double(first) / double(rows.size()), 0.75, 0.05);
  EXPECT_GT(rows.size(), 600u);
  std::ranges::sort(rows);
  EXPECT_EQ(std::ranges::adjacent_find(rows), rows.end());  // none twice
  ASSERT_EQ(prepare("ones.jsonl twos.jsonl --weights 1,1 --rows 1000 --tokenizer byte --length 16 "
                    "--out more.npy")
                .exit_code,
            0);
  EXPECT_EQ(rows_of("more.npy").size(), 1000u);
}

TEST_F(CorpusPrepare, KilledAndRepeatedGivesTheSame) {
  std::string rows;
  for (int i = 0; i < 20000; ++i)
    rows += cat("{\"prompt\": \"", i, "\", \"response\": \"", std::string(size_t(i % 300), 'y'),
                "\"}\n");
  replace_file(at("large.jsonl"), rows);
  const std::string words = "large.jsonl --tokenizer byte --length 512 --out ";
  ASSERT_EQ(prepare(words + "whole.npy").exit_code, 0);
  for (const char* signal : {"KILL", "TERM"})
    for (const char* pause : {"0", "0.1", "0.2"}) {
      fs::remove(at(".large.jsonl.index"));
      const test::Outcome killed =
          shell(cat("'", DELTASANE_PROGRAM, "' corpus prepare ", words, "k.npy & pid=$!; ",
                    "while kill -0 $pid && ! [ -e k.npy.tmp-$pid ]; do sleep 0.01; done; sleep ",
                    pause, "; kill -", signal, " $pid; wait $pid"));
      if (fs::exists(at("k.npy"))) {  // it was faster than the signal
        EXPECT_EQ(read_file(at("k.npy")), read_file(at("whole.npy")));
        fs::remove(at("k.npy"));
        continue;
      }
      EXPECT_NE(killed.exit_code, 0);
      if (std::string_view(signal) == "TERM") {
        EXPECT_NE(killed.output.find("nothing was written"), std::string::npos) << killed.output;
        for (const std::string& name : names())
          EXPECT_EQ(name.find("k.npy"), std::string::npos) << name;
      }
      ASSERT_EQ(prepare(words + "again.npy").exit_code, 0);
      EXPECT_EQ(read_file(at("again.npy")), read_file(at("whole.npy")));
      for (const std::string& name : names())
        if (name.starts_with("k.npy")) fs::remove(at(name));
    }
}

TEST_F(CorpusPrepare, RefusesAndLeavesNothingBehind) {
  replace_file(at("a.jsonl"), "{\"text\": \"x\"}\n");
  replace_file(at("empty.jsonl"), "{\"id\": 1}\n");
  const auto before = names();
  for (const char* words :
       {"", "a.jsonl --tokenizer byte", "a.jsonl --tokenizer byte --out x.txt",
        "a.jsonl --out x.npy", "a.jsonl --tokenizer byte --out x.npy --weights 1,2",
        "a.jsonl --tokenizer byte --out x.npy --length 0",
        "a.jsonl --tokenizer byte --out x.npy --long wrap"})
    EXPECT_EQ(prepare(words).exit_code, 2) << words;
  for (const char* words :
       {"nowhere --tokenizer byte --out x.npy", "empty.jsonl --tokenizer byte --out x.npy",
        "a.jsonl --tokenizer nowhere --out x.npy", "a.jsonl --tokenizer byte --out no/such/x.npy"})
    EXPECT_EQ(prepare(words).exit_code, 1) << words;
  EXPECT_EQ(names(), before);
}

TEST_F(CorpusPrepare, OneRowIsNotSeveral) {
  replace_file(at("a.jsonl"), "{\"text\": \"x\"}\n");
  const std::string said = prepare("a.jsonl --tokenizer byte --out x.npy").output;
  EXPECT_NE(said.find("x.npy: 1 row, "), said.npos) << said;
  EXPECT_NE(said.find(": 1 row, 1 kept\n"), said.npos) << said;
}

// Batches of the rows themselves are those of the prepared array.
TEST_F(CorpusPrepare, TrainsAlikeWithAndWithoutIt) {
  make_shards();
  const test::Outcome outcome =
      prepare("in --tokenizer byte --length 65 --long cut --seed 3 --out rows.npy --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const Json summary = Json::parse(outcome.output);
  const std::string here = scratch_.path().string() + "/";
  std::string direct = summary["source"], prepared = summary["train"];
  direct.insert(direct.find(':') + 1, here);
  prepared.insert(prepared.find(':') + 1, here);
  const ByteTokenizer tokenizer;
  const train::RowSettings settings{train::Learned::all, train::RowCut::pieces};
  train::BatchSource from_rows(direct, tokenizer, 256, settings);
  train::BatchSource from_array(prepared, tokenizer, 256, settings);
  const int64_t rows = summary["rows"];
  for (int64_t done = 0; done + 2 <= rows; done += 2) {
    TrainingBatch one, other;
    one.sequences = other.sequences = 2;
    one.time = other.time = 64;
    from_rows.next(one);
    from_array.next(other);
    ASSERT_EQ(one.tokens, other.tokens) << done;
    ASSERT_EQ(one.targets, other.targets) << done;
    ASSERT_EQ(one.weights, other.weights) << done;
    ASSERT_EQ(one.present, other.present) << done;
  }
}

TEST_F(CorpusPrepare, TheTrainCommandTakesRows) {
  make_shards();
  ASSERT_EQ(prepare("in --tokenizer byte --length 65 --long cut --out rows.npy").exit_code, 0);
  const auto metrics = [&](const std::string& name, const std::string& source) {
    replace_file(at(name + ".toml"),
                 cat("[model]\nlayers = 1\nchannels = 32\nhead_size = 16\n[corpus]\nsource = '",
                     source, "'\nrows = \"pieces\"\n[optimizer]\nkind = \"adamw\"\nsteps = 2\n",
                     "sequences = 2\ncontext = 64\nrate = 0.003\n[run]\nthreads = 1\nfolder = '",
                     at(name).string(), "'\n"));
    const test::Outcome trained = shell(cat("'", DELTASANE_PROGRAM, "' train ", name, ".toml"));
    EXPECT_EQ(trained.exit_code, 0) << trained.output;
    const std::string text = read_file(at(name + "/metrics.jsonl"));
    std::vector<Json> losses;
    for (size_t from = 0; from < text.size(); from = text.find('\n', from) + 1)
      losses.push_back(Json::parse(text.substr(from, text.find('\n', from) - from))["loss"]);
    return losses;
  };
  const auto direct = metrics("direct", "rows:in,order=shuffled");
  EXPECT_EQ(direct, metrics("array", "npy:rows.npy,padding=0"));
  EXPECT_EQ(direct.size(), 2u);
}

}  // namespace
}  // namespace deltasane::cli
