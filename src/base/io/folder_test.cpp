#include "base/io/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

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

// A reader that opens the place again and again, while it is replaced.
TEST(AtomicFolder, IsThereAtEveryMoment) {
  const test::Scratch scratch;
  const fs::path place = scratch.path() / "out";
  std::atomic<bool> done = false;
  std::atomic<int> looks = 0, absent = 0;
  const auto write = [&](const std::string& text) {
    AtomicFolder folder(place);
    replace_file(folder.path() / "a", text);
    folder.commit();
  };
  write("0");
  std::thread reader([&] {
    struct stat found;
    for (; !done; ++looks) absent += ::stat(place.c_str(), &found) != 0;
  });
  for (int i = 1; i <= 200; ++i) write(cat(i));
  done = true;
  reader.join();
  EXPECT_GT(looks, 0);
  EXPECT_EQ(absent, 0);
  EXPECT_EQ(read_file(place / "a"), "200");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1);
}

TEST(AtomicFolder, RemovesTheLitterOfTheDeadAndNotOfTheLiving) {
  const test::Scratch scratch;
  const fs::path place = scratch.path() / "out", dead = scratch.path() / "out.part-0123456789abcdef";
  const fs::path other = scratch.path() / "outer.part-0123456789abcdef";
  for (const fs::path& path : {dead, other}) {
    fs::create_directory(path);
    replace_file(path / "a", "1");
  }
  const AtomicFolder living(place);
  replace_file(living.path() / "a", "2");
  AtomicFolder next(place);
  EXPECT_NE(living.path(), next.path());
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(other));  // of another place
  next.commit();
  EXPECT_EQ(read_file(living.path() / "a"), "2");
  EXPECT_EQ(living.path().filename().string().size(), sizeof "out.part-" - 1 + 16);
}

TEST(AtomicFolder, SaysWhereItCannotBe) {
  const test::Scratch scratch;
  replace_file(scratch.path() / "file", "");
  EXPECT_FAULT(AtomicFolder(scratch.path() / "file" / "out"), Fault::file,
               "cannot create the folder: Not a directory");
}

TEST(CreateFolder, MakesThoseAboveOrSaysWhyNot) {
  const test::Scratch scratch;
  for (int again = 0; again < 2; ++again) create_folder(scratch.path() / "a/b");
  EXPECT_TRUE(fs::is_directory(scratch.path() / "a/b"));
  replace_file(scratch.path() / "file", "");
  EXPECT_FAULT(create_folder(scratch.path() / "file"), Fault::file, "file: cannot create the folder");
  EXPECT_FAULT(create_folder(scratch.path() / "file/b"), Fault::file,
               "file/b: cannot create the folder: Not a directory");
}

}  // namespace
}  // namespace deltasane
