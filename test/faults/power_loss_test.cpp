// Power is lost at any moment of a run. What a run wrote, flushed and renamed is recorded, and a disk
// is made of the first k of these calls on which only the following is sure:
//
// - bytes that were flushed (fsync of the file) are there; of later ones none, some, or zeros;
// - names that were made, changed or removed are there in order, and up to the last flush of a folder
//   for certain.
//
// The run is then started again and must end as if nothing had happened. Every test run takes some k;
// DELTASANE_POWER_LOSSES=N takes N of each command.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/cat.h"
#include "base/io/file.h"
#include "base/random.h"
#include "faults/scenario.h"

namespace deltasane::test {
namespace {

struct Entry {
  std::string what, path, other, bytes;
  uint64_t inode = 0;
  int64_t offset = 0;
};

std::vector<Entry> entries_in(const std::string& log) {
  std::vector<Entry> entries;
  for (size_t at = 0; at < log.size();) {
    const size_t end = log.find('\n', at);
    std::istringstream line(log.substr(at, end - at));
    Entry entry;
    size_t size = 0;
    line >> entry.what >> entry.inode >> entry.offset >> size;
    line.get();
    std::getline(line, entry.path, '\t');
    std::getline(line, entry.other);
    entry.bytes = log.substr(end + 1, size);
    at = end + 1 + size;
    entries.push_back(std::move(entry));
  }
  return entries;
}

// A file's bytes on the disk, and what was changed since they were flushed.
struct Content {
  std::string durable;
  std::vector<Entry> pending;
};

void apply(std::string& bytes, const Entry& entry, bool zeros = false) {
  if (entry.what == "truncate") return bytes.resize(size_t(entry.offset));
  const size_t end = size_t(entry.offset) + entry.bytes.size();
  if (bytes.size() < end) bytes.resize(end);
  if (!zeros) bytes.replace(size_t(entry.offset), entry.bytes.size(), entry.bytes);
}

// A path leads to the number of a content, or to a folder.
constexpr int64_t is_folder = -1;
using Names = std::map<std::string, int64_t>;

void apply(Names& names, const Entry& entry, int64_t made) {
  if (entry.what == "create") names[entry.path] = made;
  if (entry.what == "mkdir") names[entry.path] = is_folder;
  if (entry.what == "unlink") names.erase(entry.path);
  if (entry.what != "rename") return;
  Names moved;
  for (const auto& [path, content] : names)
    if (path == entry.path || path.starts_with(entry.path + "/"))
      moved[entry.other + path.substr(entry.path.size())] = content;
  std::erase_if(names, [&](const auto& one) {
    return one.first == entry.path || one.first.starts_with(entry.path + "/");
  });
  for (const auto& [path, content] : moved) names[path] = content;
}

// The disk after the first `count` entries and a power loss.
void make_disk(const std::vector<Entry>& entries, size_t count, Random& random) {
  std::vector<Content> contents;
  std::map<uint64_t, int64_t> by_inode;
  std::vector<std::pair<const Entry*, int64_t>> changes;  // of names
  size_t sure = 0;                                        // of these
  for (size_t i = 0; i < count; ++i) {
    const Entry& entry = entries[i];
    if (entry.what == "create") {
      by_inode[entry.inode] = int64_t(contents.size());
      contents.emplace_back();
    }
    const auto at = by_inode.find(entry.inode);
    if (entry.what == "write" || entry.what == "truncate") {
      if (at != by_inode.end()) contents[size_t(at->second)].pending.push_back(entry);
    } else if (entry.what == "fsync" && at != by_inode.end()) {
      Content& content = contents[size_t(at->second)];
      for (const Entry& one : content.pending) apply(content.durable, one);
      content.pending.clear();
    } else if (entry.what == "fsync") {
      sure = changes.size();
    } else {
      changes.emplace_back(&entry, at == by_inode.end() ? 0 : at->second);
    }
  }
  Names names;
  const size_t kept = sure + size_t(random.below(changes.size() - sure + 1));
  for (size_t i = 0; i < kept; ++i) apply(names, *changes[i].first, changes[i].second);
  for (const auto& [path, number] : names) {
    if (number == is_folder) {
      fs::create_directories(path);
      continue;
    }
    Content& content = contents[size_t(number)];
    const uint64_t fate = random.below(3);  // nothing, some of it, or zeros at the end
    const size_t some = fate ? size_t(random.below(content.pending.size() + 1)) : 0;
    for (size_t i = 0; i < some; ++i)
      apply(content.durable, content.pending[i], fate == 2 && i + 1 == some);
    fs::create_directories(fs::path(path).parent_path());
    replace_file(path, content.durable);
  }
}

class PowerLoss : public testing::TestWithParam<const char*> {};

TEST_P(PowerLoss, LosesNothingThatWasSaved) {
  const FaultBench bench;
  const fs::path folder = bench.folder("run"), log = bench.folder("log");
  const std::vector<Scenario> all = bench.scenarios(folder);
  const Scenario& scenario = *std::ranges::find(all, std::string(GetParam()), &Scenario::name);
  bench.prepare(GetParam(), folder);
  const auto before = files_below(folder);
  const Outcome good = run_with_shim(
      scenario.first,
      {cat("DELTASANE_FAULT_LOG=", log.string()), cat("DELTASANE_FAULT_ROOT=", folder.string())});
  ASSERT_EQ(good.exit_code, 0) << good.output;
  const auto whole = files_below(folder);
  const std::vector<Entry> entries = entries_in(read_file(log));
  ASSERT_GT(entries.size(), 3u);
  EXPECT_TRUE(std::ranges::any_of(entries, [](const Entry& e) { return e.what == "fsync"; }));
  const char* const asked = std::getenv("DELTASANE_POWER_LOSSES");
  const int rounds = asked ? std::atoi(asked) : 12;
  Random random(asked ? 2 : 1);
  for (int round = 0; round < rounds; ++round) {
    const size_t count = size_t(random.below(entries.size() + 1));
    bench.prepare(GetParam(), folder);
    make_disk(entries, count, random);
    const std::string what = cat(GetParam(), " after ", count, " of ", entries.size(), " calls");
    const auto left = files_below(folder);
    for (const auto& [name, bytes] : before)
      EXPECT_TRUE(left.at(name) == bytes || left.at(name) == whole.at(name)) << name << " " << what;
    Outcome next = run(scenario.again);
    if (next.exit_code != 0) next = run(scenario.first);  // nothing to resume from
    ASSERT_EQ(next.exit_code, 0) << what << ": " << next.output;
    const auto end = files_below(folder);
    for (const auto& [name, bytes] : whole)
      EXPECT_TRUE(end.contains(name) && end.at(name) == bytes) << name << " " << what;
    EXPECT_EQ(litter_below(folder), std::vector<std::string>()) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, PowerLoss,
                         testing::Values("convert", "generate", "train", "stream", "eval"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace deltasane::test
