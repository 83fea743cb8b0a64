// Work for a GPU that is asked for once and then repeated as a whole: many small kernels at the
// price of one launch (a CUDA graph). Addresses and sizes are kept, what lies there is not.
#pragma once

#include <functional>

#include "tensor/cuda/gpu.h"

struct CUgraphExec_st;

namespace deltasane {

class GpuGraph {
 public:
  GpuGraph() = default;
  // `work` asks for kernels and copies in the GPU's queue; nothing is run.
  GpuGraph(const Gpu& gpu, const std::function<void()>& work);
  ~GpuGraph();
  GpuGraph(GpuGraph&& other) noexcept;
  GpuGraph& operator=(GpuGraph&& other) noexcept;

  explicit operator bool() const { return graph_ != nullptr; }
  void run(const Gpu& gpu) const;

 private:
  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace deltasane
