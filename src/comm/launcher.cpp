#include "comm/launcher.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace deltasane::comm {
namespace {

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

}  // namespace deltasane::comm
