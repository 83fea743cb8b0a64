#include "comm/single_group.h"

namespace deltasane::comm {
namespace {

class SingleGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void begin_sum(std::span<float>) override {}
  void finish_sums() override {}
  double sum(double number) override { return number; }
  bool any(bool here) override { return here; }
  void expect_same(std::string_view, uint64_t) override {}
};

}  // namespace

std::unique_ptr<Group> single_group() { return std::make_unique<SingleGroup>(); }

}  // namespace deltasane::comm
