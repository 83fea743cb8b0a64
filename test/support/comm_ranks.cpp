// For the test: what each of several processes does. It prints one line per process.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/group.h"

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  try {
    const auto group = deltasane::comm::join();
    const int rank = group->rank();
    if (what == "differ") group->expect_same("configuration", rank == 1 ? 7 : 5);
    if (what == "die" && rank == 1) std::abort();
    std::vector<float> first(1000, float(rank + 1)), second(3, float(10 * rank));
    group->begin_sum(first);
    group->begin_sum(second);
    group->finish_sums();
    group->expect_same("sum", uint64_t(first[999]));
    group->wait_for_all();
    std::printf("rank %d of %d: %g %g %g %d\n", rank, group->size(), double(first[999]),
                double(second[2]), group->sum(rank + 0.5), int(group->any(rank == 1)));
    return 0;
  } catch (const deltasane::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
