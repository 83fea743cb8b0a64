#include "base/io/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

int64_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator{});
}

TEST(File, ReplacesAsAWhole) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value";
  replace_file(path, "old");
  replace_file(path, std::string("new\0one", 7));
  EXPECT_EQ(read_file(path), std::string("new\0one", 7));
  EXPECT_EQ(files_in(scratch.path()), 1);
}

TEST(File, KeepsTheOldFileWhenNotCommitted) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value";
  replace_file(path, "old");
  {
    AtomicFile file(path);
    file.write("half a");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(scratch.path()), 1);
}

TEST(File, OverwritesAHeader) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value";
  AtomicFile file(path);
  file.write("0000 rows");
  file.overwrite(0, std::as_bytes(std::span("0012", 4)));
  file.write(" end");
  file.commit();
  EXPECT_EQ(read_file(path), "0012 rows end");
}

TEST(File, AFullDiskIsAnErrorAndKeepsTheOldFile) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value";
  replace_file(path, "old");
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small { 64, before.rlim_max };
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FAULT(replace_file(path, std::string(1000, 'x')), Fault::file, "cannot write");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(scratch.path()), 1);
}

TEST(File, NamesWhatCannotBeOpened) {
  const test::Scratch scratch;
  EXPECT_FAULT(MappedFile(scratch.path() / "none"), Fault::file, "No such file");
  EXPECT_FAULT(MappedFile(scratch.path()), Fault::file, "expected a regular file");
  EXPECT_FAULT(replace_file(scratch.path() / "no" / "such", "x"), Fault::file, "cannot create");
}

TEST(File, DroppedPagesAreReadAgain) {
  const test::Scratch scratch;
  replace_file(scratch.path() / "a", std::string(10000, 'a'));
  const MappedFile file(scratch.path() / "a");
  for (int i = 0; i < 2; ++i) {
    for (const std::byte byte : file.bytes()) ASSERT_EQ(byte, std::byte{'a'});
    file.drop_pages();
  }
}

TEST(File, MapsAnEmptyFile) {
  const test::Scratch scratch;
  replace_file(scratch.path() / "empty", "");
  EXPECT_EQ(MappedFile(scratch.path() / "empty").bytes().size(), 0u);
}

}  // namespace
}  // namespace deltasane
