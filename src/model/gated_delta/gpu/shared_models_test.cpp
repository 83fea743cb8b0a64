// Models that others made, on a GPU in float: their logits, with SANE too, cut into calls.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "format/open.h"
#include "model/gated_delta/gpu/model.h"
#include "model/gated_delta/shared_fixture.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::gated_delta {
namespace {

class GpuSharedModels : public SharedModels {
 protected:
  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
    SharedModels::SetUp();
    tokens.resize(std::min<size_t>(tokens.size(), 40));  // an emulated GPU takes long
  }
  std::vector<float> on_gpu(const SaneChoice& sane, const std::vector<int64_t>& calls) {
    const auto model = open_on_gpu(
        Checkpoint(open_tensor_file(path())),
        {.device = {.gpu = 0}, .weights = kernel::WeightType::f32, .sane = sane});
    SequenceState state = model->fresh_state();
    return logits(*model, state, calls);
  }
  void expect_peer(const char* file, const std::vector<float>& found) {
    std::vector<float> expected = numbers(open_npy(folder / file));
    expected.resize(found.size());  // of the first tokens
    EXPECT_LE(largest_difference(found, expected), allowed * deviation(expected)) << file;
  }
};

TEST_P(GpuSharedModels, LogitsAreThePeers) {
  expect_peer("logits.npy", on_gpu({}, {3, 1, 21}));
  const auto settings = nlohmann::json::parse(read_file(folder / "sane.json"));
  expect_peer("logits_sane.npy", on_gpu({.alpha = settings["alpha"].get<double>()},
                                        {int64_t(tokens.size())}));
}

INSTANTIATE_TEST_SUITE_P(Peers, GpuSharedModels,
                         testing::Values("delta_net", "gated_deltanet", "kda", "qwen3_5",
                                         "qwen3_5_vl", "qwen3_5_moe", "qwen3_next",
                                         "olmo_hybrid", "olmo_hybrid_rope", "kimi_linear",
                                         "gguf_qwen35", "gguf_qwen35moe", "gguf_qwen3next",
                                         "gguf_kimi_linear"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace deltasane::gated_delta
