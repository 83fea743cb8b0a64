// Who owns a file or a folder, and what is left of writers that were killed.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "base/cat.h"
#include "base/io/file_digest.h"
#include "base/io/folder_lock.h"
#include "base/io/mapped_ranges.h"
#include "base/io/seal.h"
#include "base/io/temporary_file.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 0777;
}

// The exit code of a child that does this; 128 + n after signal n.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(AtomicFile, HasTheModeOfTheFileItReplacesOrOfTheUmask) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value";
  const mode_t before = ::umask(027);
  replace_file(path, "new");
  EXPECT_EQ(mode_of(path), 0640u);
  for (const mode_t mode : {0600u, 0664u, 0755u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    replace_file(path, "again");
    EXPECT_EQ(mode_of(path), mode);
  }
  ::umask(before);
}

TEST(AtomicFile, OfAProgramThatASignalEndsNothingIsLeft) {
  const test::Scratch scratch;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const int code = in_child([&] {
      remove_temporaries_on_signals();
      AtomicFile done(scratch.path() / "done"), first(scratch.path() / "a"), second(scratch.path() / "b");
      done.commit();
      first.write("begun");
      std::raise(number);
    });
    EXPECT_EQ(code, 128 + number);
    EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"done"});
  }
  const int ignored = in_child([] {
    std::signal(SIGHUP, SIG_IGN);
    remove_temporaries_on_signals();
    std::raise(SIGHUP);
  });
  EXPECT_EQ(ignored, 0);
}

TEST(AtomicFile, FollowsALinkAndLeavesIt) {
  const test::Scratch scratch;
  fs::create_directory(scratch.path() / "far");
  const fs::path target = scratch.path() / "far/value", link = scratch.path() / "link";
  fs::create_symlink("far/value", link);
  replace_file(link, "made through the link");
  replace_file(link, "replaced through the link");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(target), "replaced through the link");
  EXPECT_EQ(names_in(scratch.path() / "far"), std::vector<std::string>{"value"});
  fs::create_symlink("loop", scratch.path() / "loop");
  EXPECT_FAULT(replace_file(scratch.path() / "loop", "x"), Fault::file, "links");
}

TEST(AtomicFile, RefusesWhatIsNotAFile) {
  const test::Scratch scratch;
  const fs::path pipe = scratch.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FAULT(replace_file(pipe, "x"), Fault::file, "expected a regular file or a new name");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_FAULT(replace_file("/dev/null", "x"), Fault::file, "found a device");
  EXPECT_FAULT(replace_file(scratch.path(), "x"), Fault::file, "found a folder");
}

// Names were made of the process id: a link waiting there was written through, and two containers
// with equal process ids wrote to one file.
TEST(AtomicFile, NeverWritesToANameThatIsThere) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value", other = scratch.path() / "other";
  replace_file(other, "not ours");
  fs::create_symlink(other, path.string() + cat(".tmp-", ::getpid()));
  {
    AtomicFile one(path), two(path);
    one.write("one");
    two.write("two");
    one.commit();
    two.commit();
  }
  EXPECT_EQ(read_file(path), "two");
  EXPECT_EQ(read_file(other), "not ours");
}

TEST(AtomicFile, RemovesTheLitterOfTheDeadAndNotOfTheLiving) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value";
  AtomicFile living(path);
  living.write("half");
  const int code = in_child([&] {
    AtomicFile dying(path);
    dying.write("never whole");
    ::raise(SIGKILL);
  });
  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_EQ(names_in(scratch.path()).size(), 2u);
  replace_file(scratch.path() / "value.txt.tmp-0123456789abcdef", "of another file");
  replace_file(path, "whole");
  EXPECT_EQ(names_in(scratch.path()).size(), 3u) << "of the living, of another, and the file";
  living.commit();
  EXPECT_EQ(read_file(path), "half");
  remove_abandoned(scratch.path());
  EXPECT_EQ(names_in(scratch.path()), std::vector<std::string>{"value"});
}

TEST(FolderLock, HasOneOwner) {
  const test::Scratch scratch;
  const fs::path folder = scratch.path() / "a/b";
  {
    const FolderLock lock(folder);
    EXPECT_FAULT(FolderLock(folder), Fault::file, "another process writes to this folder");
    EXPECT_FAULT(FolderLock(folder, 0.05), Fault::file, "another process writes to this folder");
  }
  EXPECT_EQ(in_child([&] {
              new FolderLock(folder);
              ::raise(SIGKILL);
            }),
            128 + SIGKILL);
  const FolderLock again(folder);
  replace_file(scratch.path() / "file", "");
  EXPECT_FAULT(FolderLock(scratch.path() / "file"), Fault::file, "cannot create the folder");
}

TEST(Seal, FindsEveryChangedBit) {
  for (const std::string object : {R"({"a":1,"text":",\"xxh3\":\""})", "{\n  \"a\": 1\n}\n"}) {
    const std::string good = sealed(object);
    EXPECT_EQ(unsealed(good, "file"), object);
    for (size_t i = 0; i < good.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = good;
        bad[i] = char(bad[i] ^ (1 << bit));
        EXPECT_THROW(unsealed(bad, "file"), Error) << bad;
      }
    for (size_t size = 0; size < good.size(); ++size)
      EXPECT_THROW(unsealed(good.substr(0, size), "file"), Error);
  }
  EXPECT_FALSE(has_seal(R"({"a":1})"));
}

TEST(FileDigest, ChangesWithTheContent) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "value";
  replace_file(path, "one");
  const uint64_t one = file_digest(path);
  replace_file(path, "two");
  EXPECT_NE(file_digest(path), one);
  // Longer than what is read: its length, its first and its last byte are seen.
  const uint64_t size = digested_bytes + 12345;
  fs::resize_file(path, size);
  const uint64_t large = file_digest(path);
  fs::resize_file(path, size + 1);
  EXPECT_NE(file_digest(path), large);
  fs::resize_file(path, size);
  EXPECT_EQ(file_digest(path), large);
  FILE* const file = std::fopen(path.c_str(), "r+");
  std::fseek(file, long(size) - 1, SEEK_SET);
  std::fputc('x', file);
  std::fclose(file);
  EXPECT_NE(file_digest(path), large);
}

TEST(MappedFile, ThatBecomesShorterIsNamed) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model", said = scratch.path() / "said";
  replace_file(path, std::string(100'000, 'x'));
  const int code = in_child([&] {
    if (!std::freopen(said.c_str(), "w", stderr)) ::_exit(9);
    end_with_message_on_vanished_bytes();
    const MappedFile file(path);
    if (::truncate(path.c_str(), 10) != 0) ::_exit(8);
    uint64_t sum = 0;
    for (const std::byte byte : file.bytes()) sum += uint64_t(byte);
    ::_exit(sum ? 7 : 6);
  });
  EXPECT_EQ(code, 1);
  EXPECT_NE(read_file(said).find("/model: expected the bytes"), std::string::npos)
      << read_file(said);
}

}  // namespace
}  // namespace deltasane
