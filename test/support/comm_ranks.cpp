// Test program: one process of a job. It runs the collectives and prints one line.
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "comm/group.h"
#include "comm/local_rank.h"

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  try {
    const auto group = deltasane::comm::join();
    const int rank = group->rank();
    if (what == "differ") group->expect_same("configuration", rank == 1 ? 7 : 5);
    if (what.starts_with("die") && rank == 1) std::abort();
    if (what == "apart" && rank == 1) group->all_gather(3);
    if (what == "die watched")
      for (;;) group->check_peers();
    const double halves = group->all_reduce(rank + 0.5);
    std::vector<float> first(1000, float(rank + 1)), second(3, float(10 * rank));
    group->begin_all_reduce(first);
    group->begin_all_reduce(second);
    group->finish_all_reduces();
    group->expect_same("sum", uint64_t(first[999]));
    std::string all;
    for (const uint64_t one : group->all_gather(uint64_t(10 * rank)))
      all += deltasane::cat(" ", one);
    int64_t broadcast = rank + 77;
    group->broadcast(std::as_writable_bytes(std::span(&broadcast, 1)));
    const auto local = deltasane::comm::local_rank(*group);
    std::cout << deltasane::cat("rank ", rank, " of ", group->size(), ": ", first[999], " ",
                                second[2], " ", halves, " ", int(group->any(rank == 1)), "; all",
                                all, "; broadcast ", broadcast, "; local ", local.rank, " of ",
                                local.size, "\n");
    return 0;
  } catch (const deltasane::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
