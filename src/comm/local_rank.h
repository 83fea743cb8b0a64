// Rank and size among the processes of a job that run on the same machine, and the GPU that follows
// from them.
#pragma once

#include <optional>
#include <string_view>

#include "comm/group.h"

namespace deltasane::comm {

struct LocalRank {
  int rank, size;
};
LocalRank local_rank(Group& group);

// What a launcher tells the processes of a job in their environment: mpirun of Open MPI or MPICH,
// Slurm, or a script with DELTASANE_RANK and DELTASANE_SIZE. For jobs whose processes exchange no
// messages.
struct LaunchedRank {
  int rank = 0, size = 1;
  LocalRank local{0, 1};  // as the launcher says; where it does not, all are on one machine
};
std::optional<LaunchedRank> launched_rank();  // none: no launcher

// The GPU of this process, of the `gpus` that its machine has. Fails where there are fewer than
// processes; `otherwise` says what to do then, besides starting fewer.
int own_gpu(const LocalRank& here, int gpus, std::string_view otherwise);

}  // namespace deltasane::comm
