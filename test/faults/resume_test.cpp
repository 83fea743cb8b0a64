// A run is resumed with what it was stopped with, or not at all: a changed digit, another corpus and a
// second process are refused, and say why.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/cat.h"
#include "base/io/file.h"
#include "base/io/folder_lock.h"
#include "base/io/seal.h"
#include "base/random.h"
#include "faults/scenario.h"

namespace deltasane::test {
namespace {

using Json = nlohmann::ordered_json;

class Resume : public testing::Test {
 protected:
  Scenario scenario(const std::string& name) const {
    const std::vector<Scenario> all = bench_.scenarios(folder_);
    return *std::ranges::find(all, name, &Scenario::name);
  }
  Scenario begun(const std::string& name) const {
    bench_.prepare(name, folder_);
    const Scenario now = scenario(name);
    const Outcome outcome = run(now.first);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return now;
  }
  static void expect_refused(const std::vector<std::string>& words, std::string_view part) {
    const Outcome outcome = run(words);
    EXPECT_TRUE(outcome.exit_code == 1 || outcome.exit_code == 2)
        << outcome.exit_code << ": " << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }
  static void expect_done(std::vector<std::string> words, std::vector<std::string> more = {}) {
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
  // The bits of a file, some of them: each changed one is refused, or all ends as before.
  void expect_changes_found(const fs::path& file, const std::vector<std::string>& words,
                            int changes) {
    const auto whole = files_below(folder_);
    const std::string good = read_file(file);
    Random random(3);
    for (int i = 0; i < changes; ++i) {
      std::string bad = good;
      const size_t at = size_t(random.below(bad.size()));
      bad[at] = char(bad[at] ^ (1 << random.below(7)));
      replace_file(file, bad);
      const Outcome outcome = run(words);
      EXPECT_LE(outcome.exit_code, 2) << outcome.output;
      if (outcome.exit_code == 0) {
        EXPECT_EQ(files_below(folder_), whole) << "byte " << at << " of " << file;
      }
      replace_file(file, good);
    }
    expect_done(words);
  }

  FaultBench bench_;
  const fs::path folder_ = bench_.folder("run");
};

// 50 of 507 one-bit flips were resumed with other results.
TEST_F(Resume, AStreamsCheckpointIsWhatWasSaved) {
  const Scenario stream = begun("stream");
  expect_changes_found(folder_ / "run/checkpoint.json", stream.again, 24);
  std::string text = read_file(folder_ / "run/checkpoint.json");
  const size_t loss = text.find("\"loss\": ") + 8;
  text[loss] = text[loss] == '9' ? '8' : '9';
  replace_file(folder_ / "run/checkpoint.json", text);
  expect_refused(stream.again, "checkpoint.json: expected the content of its checksum");
}

// A short array was read out of bounds, and a checksum can be computed by anyone.
TEST_F(Resume, AStreamsCheckpointIsCheckedInFull) {
  Scenario stream = scenario("stream");
  bench_.prepare("stream", folder_);
  for (std::vector<std::string>* words : {&stream.first, &stream.again}) {
    for (std::string& word : *words)
      if (word == "192") word = "576";
    words->insert(words->end(), {"--sane-alpha", "3", "--sane-adaptive"});
  }
  expect_done(stream.first);
  const fs::path file = folder_ / "run/checkpoint.json";
  const std::string good = read_file(file);
  const auto refuses = [&](const std::function<void(Json&)>& change, std::string_view part) {
    Json json = Json::parse(unsealed(good, "file"));
    change(json);
    replace_file(file, sealed(json.dump(2) + "\n"));
    expect_refused(stream.again, part);
    replace_file(file, good);
  };
  using Pointer = Json::json_pointer;
  const auto set = [](const char* where, const Json& value) {
    return [=](Json& json) { json[Pointer(where)] = value; };
  };
  refuses(set("/streams/0/adaptive/alphas", Json::array()), "adaptive.alphas: expected 1 numbers");
  refuses(set("/streams/0/adaptive/references", Json::array()), "adaptive.references: expected 1");
  refuses(set("/streams/0/adaptive/alphas", {1e9}), "adaptive.alphas: expected numbers above 0");
  refuses(set("/streams/0/pending", -1), "pending: expected a token below 256");
  refuses(set("/streams/0/pending", 256), "pending: expected a token below 256");
  refuses(set("/streams/0/tokens", 577), "tokens: expected 576, found 577");
  refuses(set("/streams/0/loss", -1.0), "loss: expected a finite number");
  refuses(set("/streams/0/token", 1 << 30), "expected a cursor inside it");
  refuses(set("/record_bytes/0", 1000), "expected rows that end at byte 1000");
  refuses(set("/record_bytes", {1, 2}), "expected the sizes of 3 files and 1 streams");
  refuses(set("/position", -64), "checkpoint");
  refuses(set("/position", "far"), "expected a checkpoint, found");
  refuses(set("/streams", Json::array()), " files and 1 streams, found");
  expect_done(stream.again);
}

TEST_F(Resume, RefusesTheHostileStreams) {
  const fs::path shared = fs::path(DELTASANE_SHARED) / "data/hostile";
  if (!fs::exists(shared)) GTEST_SKIP() << shared << " is not here";
  for (const char* name :
       {"stream-short-alphas", "stream-short-references", "stream-checkpoint-base"}) {
    const bool adaptive = std::string_view(name).starts_with("stream-short");
    fs::remove_all(folder_);
    fs::copy(shared / name, folder_, fs::copy_options::recursive);
    std::vector<std::string> words{DELTASANE_PROGRAM,
                                   "stream",
                                   shared / "mini.safetensors",
                                   "--corpus",
                                   "math-chat:seed=1",
                                   "--tokens",
                                   "8192",
                                   "--out",
                                   folder_,
                                   "--segment",
                                   "256",
                                   "--threads",
                                   "1",
                                   "--resume"};
    if (adaptive) words.push_back("--sane-adaptive");
    expect_refused(words, "checkpoint.json: expected a checkpoint with a checksum");
    words.push_back("--resume-unverified");
    if (adaptive)
      expect_refused(words, cat("adaptive.", name + sizeof "stream-short", ": expected "));
    else
      expect_done(words);
  }
}

TEST_F(Resume, ACorpusIsTheOneItBeganWith) {
  const fs::path corpus = bench_.folder("corpus.txt");
  std::string text;
  for (int i = 0; i < 400; ++i) text += cat("line ", i * i, " of the corpus\n");
  replace_file(corpus, text);
  bench_.prepare("train", folder_);
  std::string config = read_file(folder_ / "train.toml");
  const std::string named = "math-chat:seed=1";
  config.replace(config.find(named), named.size(), cat("text:", corpus.string()));
  replace_file(folder_ / "train.toml", config);
  Scenario stream = scenario("stream");
  const Scenario train = scenario("train");
  for (std::vector<std::string>* words : {&stream.first, &stream.again}) {
    std::ranges::replace(*words, named, cat("text:", corpus.string()));
    std::ranges::replace(*words, (folder_ / "run").string(), (folder_ / "stream").string());
  }
  expect_done(train.first);
  expect_done(stream.first);
  expect_done(train.again);
  expect_done(stream.again);
  text[text.size() / 2] ^= 1;
  replace_file(corpus, text);
  expect_refused(train.again, "corpus.source: ");
  expect_refused(stream.again, "corpus: expected the content it began with");
  expect_done(train.again, {"--resume-unverified"});
  expect_done(stream.again, {"--resume-unverified"});
}

// 33 of 240 changes passed.
TEST_F(Resume, TheJournalsOfAnEvaluationAreWhatWasWritten) {
  const Scenario eval = begun("eval");
  expect_changes_found(folder_ / "run/samples.jsonl", eval.again, 12);
  expect_changes_found(folder_ / "run/problems.jsonl", eval.again, 12);
  expect_changes_found(folder_ / "run/run.json", eval.again, 8);
  std::string lines = read_file(folder_ / "run/problems.jsonl");
  const size_t correct = lines.find("\"correct\":false");
  ASSERT_NE(correct, lines.npos);
  lines.replace(correct, 15, "\"correct\":true ");
  replace_file(folder_ / "run/problems.jsonl", lines);
  expect_refused(eval.again, "problems.jsonl:1: expected the content of its checksum");
}

// A run of a version that had no checksums: refused, unless it is allowed; it has them from then on.
TEST_F(Resume, AnEvaluationWithoutChecksumsIsRefusedOrAllowed) {
  const Scenario eval = begun("eval");
  const auto whole = files_below(folder_);
  for (const char* name : {"samples.jsonl", "problems.jsonl"}) {
    std::istringstream lines(read_file(folder_ / "run" / name));
    std::string text;
    for (std::string line; std::getline(lines, line);) text += unsealed(line, name) + "\n";
    replace_file(folder_ / "run" / name, text);
  }
  Json settings = Json::parse(read_file(folder_ / "run/run.json"));
  settings.erase("xxh3");
  settings.erase("tokenizer_digest");
  replace_file(folder_ / "run/run.json", settings.dump(2) + "\n");
  expect_refused(eval.again, "expected a run with checksums");
  expect_done(eval.again, {"--resume-unverified"});
  EXPECT_EQ(files_below(folder_), whole);
}

TEST_F(Resume, AnEvaluationHasTheVocabularyItBeganWith) {
  const fs::path vocabulary = bench_.folder("vocabulary.txt"), model = bench_.folder("model");
  std::string text = read_file(fs::path(DELTASANE_SOURCE) / "test/fuzz/corpus/vocabulary/good_bytes");
  replace_file(vocabulary, text);
  std::string config = read_file(bench_.folder("model.toml"));
  config.replace(config.find("[optimizer]"), 0, cat("tokenizer = '", vocabulary.string(), "'\n"));
  replace_file(bench_.folder("model.toml"), config);
  fs::remove_all(model);
  expect_done({DELTASANE_PROGRAM, "train", bench_.folder("model.toml")});
  std::vector<std::string> eval = scenario("eval").first;
  eval.insert(eval.end(), {"--tokenizer", vocabulary});
  expect_done(eval);
  expect_done(eval);
  text.replace(text.rfind("259 "), text.npos, "259 'zz' 2\n");
  replace_file(vocabulary, text);
  expect_refused(eval, "expected a run with the same settings, found another");
  expect_refused(eval, "tokenizer_digest");
  expect_done(eval, {"--resume-unverified"});
}

// Two runs deleted each other's checkpoints, and both ended with exit code 0.
TEST_F(Resume, AFolderHasOneOwner) {
  for (const char* name : {"train", "stream", "eval"}) {
    bench_.prepare(name, folder_);
    const FolderLock other(folder_ / "run");
    expect_refused(scenario(name).first, "another process writes to this folder");
  }
}

TEST_F(Resume, WhatCannotBeWrittenIsAnErrorAndNothingIsLost) {
  bench_.prepare("train", folder_);
  const std::vector<std::string> train = scenario("train").first;
  // A reader that goes away: the run ends, with its work saved.
  Outcome outcome = run(
      {"bash", "-c", "\"$@\" | true; exit ${PIPESTATUS[0]}", "sh", train[0], train[1], train[2]});
  EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 141) << outcome.output;
  EXPECT_TRUE(fs::exists(folder_ / "run/step_00000004/manifest.json")) << outcome.output;
  // A device that is full.
  outcome = run({"sh", "-c", "\"$1\" machine > /dev/full", "sh", train[0]});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("cannot write"), std::string::npos) << outcome.output;
  // A limit on the size of files.
  bench_.prepare("train", folder_);
  outcome = run({"bash", "-c", "ulimit -f 64; \"$@\"", "sh", train[0], train[1], train[2]});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("File too large"), std::string::npos) << outcome.output;
  EXPECT_EQ(litter_below(folder_), std::vector<std::string>());
  expect_done(train);
}

// Nothing was saved but at the end.
TEST_F(Resume, TrainingSavesWhatItLearnedBeforeMemoryRanOut) {
  bench_.prepare("train", folder_);
  std::string config = read_file(folder_ / "train.toml");
  for (const auto& [from, to] :
       {std::pair("save_every = 2\n", ""), {"steps = 4\n", "steps = 40\n"}})
    config.replace(config.find(from), std::string_view(from).size(), to);
  replace_file(folder_ / "train.toml", config);
  const Scenario train = scenario("train");
  const fs::path counts = bench_.folder("counts");
  run_with_shim(train.first, {cat("DELTASANE_FAULT_COUNTS=", counts.string())});
  const auto whole = files_below(folder_);
  const std::string text = read_file(counts);
  const int64_t all = std::stoll(text.substr(text.find("allocate ") + 9));
  fs::remove_all(folder_ / "run");
  const Outcome hit =
      run_with_shim(train.first, {cat("DELTASANE_FAULT=allocate:", all * 8 / 10, ":12")});
  EXPECT_EQ(hit.exit_code, 1) << hit.output;
  EXPECT_NE(hit.output.find("saved "), std::string::npos) << hit.output;
  expect_done(train.again);
  EXPECT_EQ(files_below(folder_), whole);
}

}  // namespace
}  // namespace deltasane::test
