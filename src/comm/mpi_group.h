// A job that mpirun started. Unsupported in builds without MPI; the message says what to install.
#pragma once

#include "comm/group.h"

namespace deltasane::comm {

std::unique_ptr<Group> mpi_group(int processes);

}  // namespace deltasane::comm
