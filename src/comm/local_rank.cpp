#include "comm/local_rank.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "base/error.h"

namespace deltasane::comm {
namespace {

// The boot id of the kernel, which all containers on it share; the host name where there is none.
uint64_t machine_id() {
  std::string name;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, name)) {
    name.assign(256, '\0');
    ::gethostname(name.data(), name.size() - 1);
  }
  return XXH3_64bits(name.data(), name.size());
}

struct Names {
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Names launchers[] = {
    {"DELTASANE_RANK", "DELTASANE_SIZE", nullptr, nullptr},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};

std::optional<int> number(const char* name) {
  const char* const value = name ? std::getenv(name) : nullptr;
  if (!value) return std::nullopt;
  int found = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, found);
  if (error != std::errc() || stop != end || found < 0)
    fail(Fault::usage, name, ": expected a number from 0, found '", value, "'");
  return found;
}

}  // namespace

LocalRank local_rank(Group& group) {
  const std::vector<uint64_t> all = group.all_gather(machine_id());
  const uint64_t here = all[size_t(group.rank())];
  return {int(std::count(all.begin(), all.begin() + group.rank(), here)),
          int(std::ranges::count(all, here))};
}

std::optional<LaunchedRank> launched_rank() {
  for (const Names& names : launchers) {
    const auto rank = number(names.rank), size = number(names.size);
    if (!rank || !size) continue;
    if (*rank >= *size)
      fail(Fault::usage, names.rank, ": expected a number below ", *size, ", found ", *rank);
    const auto local_rank = number(names.local_rank), local_size = number(names.local_size);
    return LaunchedRank{*rank, *size, {local_rank.value_or(*rank), local_size.value_or(*size)}};
  }
  return std::nullopt;
}

int own_gpu(const LocalRank& here, int gpus, std::string_view otherwise) {
  if (here.size > 1 && here.size > gpus)
    fail(Fault::device, "device cuda: expected a GPU for each of the ", here.size,
         " processes on this machine, found ", gpus, "; start fewer, or ", otherwise);
  return here.rank;
}

}  // namespace deltasane::comm
