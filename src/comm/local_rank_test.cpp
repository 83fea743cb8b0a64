#include "comm/local_rank.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/errors.h"

namespace deltasane::comm {
namespace {

// Variables that are set for as long as this lives, and no others of a launcher.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& all) {
    clear();
    for (const auto& [name, value] : all) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name :
         {"DELTASANE_RANK", "DELTASANE_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE",
          "MPI_LOCALRANKID", "MPI_LOCALNRANKS"})
      ::unsetenv(name);
  }
};

TEST(Launcher, TellsRanksInItsOwnVariables) {
  {
    const Environment none({});
    EXPECT_FALSE(launched_rank());
  }
  {
    const Environment open_mpi({{"OMPI_COMM_WORLD_RANK", "5"},
                                {"OMPI_COMM_WORLD_SIZE", "8"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
    const LaunchedRank found = *launched_rank();
    EXPECT_EQ(found.rank, 5);
    EXPECT_EQ(found.size, 8);
    EXPECT_EQ(found.local.rank, 1);
    EXPECT_EQ(found.local.size, 4);
  }
  {
    const Environment by_hand({{"DELTASANE_RANK", "2"}, {"DELTASANE_SIZE", "3"}});
    EXPECT_EQ(launched_rank()->local.rank, 2);
  }
  const Environment wrong({{"PMI_RANK", "3"}, {"PMI_SIZE", "3"}});
  EXPECT_FAULT(launched_rank(), Fault::usage, "PMI_RANK: expected a number below 3, found 3");
}

TEST(Launcher, EveryProcessHasAGpuOfItsOwnOrFails) {
  EXPECT_EQ(own_gpu({0, 1}, 0, "use the CPU"), 0);  // opening it says that there is none
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(own_gpu({rank, 4}, 4, "use the CPU"), rank);
  EXPECT_FAULT(own_gpu({1, 4}, 3, "use the CPU"), Fault::device,
               "device cuda: expected a GPU for each of the 4 processes on this machine, found 3; "
               "start fewer, or use the CPU");
}

}  // namespace
}  // namespace deltasane::comm
