#include "comm/local_rank.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
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

}  // namespace

LocalRank local_rank(Group& group) {
  const std::vector<uint64_t> all = group.all_gather(machine_id());
  const uint64_t here = all[size_t(group.rank())];
  return {int(std::count(all.begin(), all.begin() + group.rank(), here)),
          int(std::ranges::count(all, here))};
}

int own_gpu(const LocalRank& here, int gpus, std::string_view otherwise) {
  if (here.size > 1 && here.size > gpus)
    fail(Fault::device, "device cuda: expected a GPU for each of the ", here.size,
         " processes on this machine, found ", gpus, "; start fewer, or ", otherwise);
  return here.rank;
}

}  // namespace deltasane::comm
