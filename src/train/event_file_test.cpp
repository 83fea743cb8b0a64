#include "train/event_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/scratch.h"

namespace deltasane::train {
namespace {

TEST(EventFile, HoldsRecordsAsTensorBoardReadsThem) {
  const deltasane::test::Scratch scratch;
  { EventFile(scratch.path(), 1000.5).add(1001.5, 300, "loss", 2.5f); }
  const auto entry = *fs::directory_iterator(scratch.path());
  const std::string file = read_file(entry.path());
  std::vector<std::string> events;
  for (size_t at = 0; at < file.size();) {
    uint64_t length = 0;
    std::memcpy(&length, file.data() + at, 8);
    ASSERT_LE(at + 16 + length, file.size());
    events.push_back(file.substr(at + 12, length));
    at += 16 + length;
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].substr(9), std::string("\x1A\x0D") + "brain.Event:2");
  // wall time, step 300, a summary of one value: tag "loss", simple_value 2.5
  EXPECT_EQ(events[1].substr(9), std::string("\x10\xAC\x02\x2A\x0D\x0A\x0B\x0A\x04loss\x15"
                                             "\x00\x00\x20\x40",
                                             18));
}

TEST(EventFile, NeverWritesOverAnother) {
  const deltasane::test::Scratch scratch;
  { EventFile first(scratch.path(), 7); }
  { EventFile second(scratch.path(), 7); }
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 2);
}

}  // namespace
}  // namespace deltasane::train
