// What a launcher tells the processes of a job in their environment: mpirun of Open MPI or MPICH,
// Slurm, or a script with DELTASANE_RANK and DELTASANE_SIZE. For jobs whose processes exchange no
// messages; group.h is for the others.
#pragma once

#include <optional>

#include "comm/local_rank.h"

namespace deltasane::comm {

struct LaunchedRank {
  int rank = 0, size = 1;
  LocalRank local{0, 1};  // as the launcher says; where it does not, all are on one machine
};
std::optional<LaunchedRank> launched_rank();  // none: no launcher

}  // namespace deltasane::comm
