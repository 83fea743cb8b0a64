// For the test: what each of several processes does. It prints one line per process.
#include <cstdlib>
#include <iostream>
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
    std::cout << deltasane::cat("rank ", rank, " of ", group->size(), ": ", first[999], " ",
                                second[2], " ", group->sum(rank + 0.5), " ",
                                int(group->any(rank == 1)), "\n");
    return 0;
  } catch (const deltasane::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
