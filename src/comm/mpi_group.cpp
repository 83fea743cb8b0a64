#include "comm/mpi_group.h"

#include <mpi.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "base/error.h"

namespace deltasane::comm {
namespace {

void check(int result, std::string_view what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  fail(Fault::device, "MPI: expected to ", what,
       ", found: ", std::string_view(text, size_t(length)));
}

class MpiGroup : public Group {
 public:
  explicit MpiGroup(int processes) {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "start");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "get its rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "get the number of processes");
    if (size_ != processes)
      fail(Fault::device, "MPI: expected ", processes, " processes as the launcher says, found ",
           size_, "; the launcher and the MPI library are different implementations");
  }
  // After an error the process exits without MPI_Finalize, so that mpirun ends the others, which
  // may be blocked in a collective.
  ~MpiGroup() override {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void begin_all_reduce(std::span<float> numbers) override {
    constexpr size_t max_count = size_t{1} << 28;  // MPI counts are int
    // A library without a progress thread advances earlier reductions only inside its calls.
    int done = 0;
    check(MPI_Testall(int(pending_.size()), pending_.data(), &done, MPI_STATUSES_IGNORE),
          "progress the reductions");
    for (size_t at = 0; at < numbers.size(); at += max_count) {
      const auto part = numbers.subspan(at, std::min(max_count, numbers.size() - at));
      check(MPI_Iallreduce(MPI_IN_PLACE, part.data(), int(part.size()), MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD, &pending_.emplace_back()),
            "start a reduction");
    }
  }
  void finish_all_reduces() override {
    check(MPI_Waitall(int(pending_.size()), pending_.data(), MPI_STATUSES_IGNORE),
          "complete the reductions");
    pending_.clear();
  }
  double all_reduce(double number) override {
    check(MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "reduce");
    return number;
  }
  std::vector<uint64_t> all_gather(uint64_t number) override {
    std::vector<uint64_t> all(static_cast<size_t>(size_));
    check(MPI_Allgather(&number, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD),
          "gather");
    return all;
  }
  void broadcast(std::span<std::byte> bytes) override {
    check(MPI_Bcast(bytes.data(), int(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD), "broadcast");
  }

 private:
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> pending_;
};

}  // namespace

std::unique_ptr<Group> mpi_group(int processes) { return std::make_unique<MpiGroup>(processes); }

}  // namespace deltasane::comm
