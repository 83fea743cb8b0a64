#include "comm/group.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "comm/local_rank.h"
#include "comm/mpi_group.h"
#include "comm/socket/secret.h"
#include "comm/single_group.h"
#include "comm/socket/socket_group.h"

namespace deltasane::comm {
namespace {

int integer_from(const char* name, int min, int max) {
  const char* const value = std::getenv(name);
  int number = 0;
  if (value) {
    const char* const end = value + std::strlen(value);
    const auto [stop, error] = std::from_chars(value, end, number);
    if (error == std::errc() && stop == end && number >= min && number <= max) return number;
  }
  fail(Fault::usage, name, ": expected a number from ", min, " to ", max, ", found ",
       value ? cat("'", value, "'") : "nothing");
}

std::optional<SocketGroupSettings> settings_from_environment() {
  if (!std::getenv("DELTASANE_SIZE") && !std::getenv("DELTASANE_RANK")) return std::nullopt;
  SocketGroupSettings settings;
  settings.size = integer_from("DELTASANE_SIZE", 1, 1024);
  settings.rank = integer_from("DELTASANE_RANK", 0, settings.size - 1);
  if (const char* address = std::getenv("DELTASANE_ADDRESS")) settings.address = address;
  settings.secret = secret_from_environment();
  return settings;
}

}  // namespace

void Group::expect_same(std::string_view what, uint64_t value) {
  const std::vector<uint64_t> all = all_gather(value);
  for (size_t other = 1; other < all.size(); ++other)
    if (all[other] != all[0])
      fail(Fault::argument, what, ": expected the same on every process, found that rank ", other,
           " of ", all.size(), " differs from rank 0");
}

std::unique_ptr<Group> join() {
  if (const auto settings = settings_from_environment())
    return settings->size > 1 ? socket_group(*settings) : single_group();
  const auto launched = launched_rank();
  return launched && launched->size > 1 ? mpi_group(launched->size) : single_group();
}

}  // namespace deltasane::comm
