#include "comm/group.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "comm/mpi_group.h"
#include "comm/single_group.h"
#include "comm/socket_group.h"

namespace deltasane::comm {
namespace {

// Launchers tell each process how many there are; Open MPI, MPICH and Slurm under these names.
int started_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 1;
}

int number_in(const char* name, int least, int most) {
  const char* const value = std::getenv(name);
  int number = 0;
  if (value) {
    const char* const end = value + std::strlen(value);
    const auto [stop, error] = std::from_chars(value, end, number);
    if (error == std::errc() && stop == end && number >= least && number <= most) return number;
  }
  fail(Fault::usage, name, ": expected a number from ", least, " to ", most, ", found ",
       value ? cat("'", value, "'") : "nothing");
}

std::optional<SocketPlace> place_by_name() {
  if (!std::getenv("DELTASANE_SIZE") && !std::getenv("DELTASANE_RANK")) return std::nullopt;
  SocketPlace place;
  place.size = number_in("DELTASANE_SIZE", 1, 1024);
  place.rank = number_in("DELTASANE_RANK", 0, place.size - 1);
  if (const char* address = std::getenv("DELTASANE_ADDRESS")) place.address = address;
  return place;
}

}  // namespace

void Group::expect_same(std::string_view what, uint64_t value) {
  const std::vector<uint64_t> all = gather(value);
  for (size_t other = 1; other < all.size(); ++other)
    if (all[other] != all[0])
      fail(Fault::argument, what, ": expected the same on every process, found another on rank ",
           other, " of ", all.size(), " than on rank 0");
}

std::unique_ptr<Group> join() {
  if (const auto place = place_by_name())
    return place->size > 1 ? socket_group(*place) : single_group();
  const int processes = started_processes();
  return processes > 1 ? mpi_group(processes) : single_group();
}

}  // namespace deltasane::comm
