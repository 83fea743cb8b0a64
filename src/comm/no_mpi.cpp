#include "base/error.h"
#include "comm/mpi_group.h"

namespace deltasane::comm {

std::unique_ptr<Group> mpi_group(int processes) {
  fail(Fault::device, "job of ", processes,
       " processes: expected a program built with MPI, found one without; install libopenmpi-dev "
       "and openmpi-bin and build again, or start each with DELTASANE_RANK and DELTASANE_SIZE");
}

}  // namespace deltasane::comm
