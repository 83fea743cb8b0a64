#include "base/error.h"
#include "comm/nccl_all_reduce.h"

namespace deltasane::comm {

int nccl_version() { return 0; }

std::unique_ptr<DeviceAllReduce> nccl_all_reduce(Group&, const Gpu&, bool) {
  fail(Fault::device,
       "run.sums: expected a program built with NCCL, found one without; build again with "
       "-DNCCL_ROOT=FOLDER, where include/nccl.h and lib/libnccl.so.2 are, or use run.sums = "
       "\"host\"");
}

}  // namespace deltasane::comm
