// Rank and size among the processes of a job that run on the same machine.
#pragma once

#include "comm/group.h"

namespace deltasane::comm {

struct LocalRank {
  int rank, size;
};
LocalRank local_rank(Group& group);

}  // namespace deltasane::comm
