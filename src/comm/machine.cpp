#include "comm/machine.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace deltasane::comm {
namespace {

// The kernel draws its number when it starts, the same for all containers on it. Where there is
// none, the host's name.
uint64_t machine_number() {
  std::string name;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, name)) {
    name.assign(256, '\0');
    ::gethostname(name.data(), name.size() - 1);
  }
  return XXH3_64bits(name.data(), name.size());
}

}  // namespace

PlaceOnMachine place_on_machine(Group& group) {
  const std::vector<uint64_t> all = group.gather(machine_number());
  const uint64_t here = all[size_t(group.rank())];
  return {int(std::count(all.begin(), all.begin() + group.rank(), here)),
          int(std::ranges::count(all, here))};
}

}  // namespace deltasane::comm
