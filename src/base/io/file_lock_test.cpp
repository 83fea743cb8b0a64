#include "base/io/file_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

// The child has the lock until it is killed.
TEST(FileLock, IsOneProcessesAtATimeAndGivenBackByOneThatIsKilled) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "lock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const FileLock held(path);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  int waited = 0;
  const FileLock mine(path, [&] {
    ++waited;
    kill(child, SIGKILL);
  });
  EXPECT_EQ(waited, 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  close(ready[0]), close(ready[1]);
}

TEST(FileLock, FreeOnesAreTakenAtOnce) {
  const test::Scratch scratch;
  for (int i = 0; i < 2; ++i)
    FileLock(scratch.path() / "lock", [] { ADD_FAILURE() << "nobody has it"; });
  EXPECT_FAULT(FileLock(scratch.path() / "nowhere/lock"), Fault::file, "cannot open");
  auto held = FileLock::attempt(scratch.path() / "lock");
  EXPECT_TRUE(held);
  EXPECT_FALSE(FileLock::attempt(scratch.path() / "lock"));
  held.reset();
  EXPECT_TRUE(FileLock::attempt(scratch.path() / "lock"));
}

}  // namespace
}  // namespace deltasane
