// A job that mpirun started. Built without MPI it is refused, and the message says what to install.
#pragma once

#include "comm/group.h"

namespace deltasane::comm {

std::unique_ptr<Group> mpi_group(int processes);

}  // namespace deltasane::comm
