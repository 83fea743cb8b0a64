#include "base/io/folder.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

TEST(AtomicFolder, AppearsWholeOrNotAtAll) {
  const test::Scratch scratch;
  const fs::path place = scratch.path() / "out";
  {
    AtomicFolder folder(place);
    replace_file(folder.path() / "a", "1");
    EXPECT_FALSE(fs::exists(place));
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  for (const char* const text : {"1", "2"}) {
    AtomicFolder folder(text[0] == '1' ? place : place / "");
    replace_file(folder.path() / "a", text);
    folder.commit();
    EXPECT_EQ(read_file(place / "a"), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1);
}

TEST(AtomicFolder, SaysWhereItCannotBe) {
  const test::Scratch scratch;
  replace_file(scratch.path() / "file", "");
  EXPECT_FAULT(AtomicFolder(scratch.path() / "file" / "out"), Fault::file,
               "expected to write this folder");
}

}  // namespace
}  // namespace deltasane
