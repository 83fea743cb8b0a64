#include "comm/group.h"

#include <cstdlib>

#include "comm/mpi_group.h"
#include "comm/single_group.h"

namespace deltasane::comm {
namespace {

// Launchers tell each process how many there are; Open MPI, MPICH and Slurm under these names.
int started_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 1;
}

}  // namespace

std::unique_ptr<Group> join() {
  const int processes = started_processes();
  return processes > 1 ? mpi_group(processes) : single_group();
}

}  // namespace deltasane::comm
