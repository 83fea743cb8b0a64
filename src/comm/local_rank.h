// Rank and size among the processes of a job that run on the same machine.
#pragma once

#include "comm/group.h"

namespace deltasane::comm {

struct LocalRank {
  int rank, size;
};
LocalRank local_rank(Group& group);

// The GPU of this process, of the `gpus` that its machine has. Fails where there are fewer than
// processes; `otherwise` says what to do then, besides starting fewer.
int own_gpu(const LocalRank& here, int gpus, std::string_view otherwise);

}  // namespace deltasane::comm
