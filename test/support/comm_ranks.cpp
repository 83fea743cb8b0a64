// For the test: what each of several processes does. It prints one line per process.
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/group.h"
#include "comm/machine.h"

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  try {
    const auto group = deltasane::comm::join();
    const int rank = group->rank();
    if (what == "differ") group->expect_same("configuration", rank == 1 ? 7 : 5);
    if (what.starts_with("die") && rank == 1) std::abort();
    if (what == "apart" && rank == 1) group->gather(3);
    if (what == "die watched")
      for (;;) group->expect_others();
    const double halves = group->sum(rank + 0.5);
    std::vector<float> first(1000, float(rank + 1)), second(3, float(10 * rank));
    group->begin_sum(first);
    group->begin_sum(second);
    group->finish_sums();
    group->expect_same("sum", uint64_t(first[999]));
    std::string all;
    for (const uint64_t one : group->gather(uint64_t(10 * rank))) all += deltasane::cat(" ", one);
    int64_t told = rank + 77;
    group->broadcast(std::as_writable_bytes(std::span(&told, 1)));
    const auto here = deltasane::comm::place_on_machine(*group);
    std::cout << deltasane::cat("rank ", rank, " of ", group->size(), ": ", first[999], " ",
                                second[2], " ", halves, " ", int(group->any(rank == 1)), "; all",
                                all, "; told ", told, "; here ", here.rank, " of ", here.size,
                                "\n");
    return 0;
  } catch (const deltasane::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
