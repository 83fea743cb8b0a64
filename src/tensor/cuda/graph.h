// A CUDA graph: work that is captured once and then launched as a whole, many small kernels at the
// cost of one launch. Addresses and sizes are captured, contents are not.
#pragma once

#include <functional>

#include "tensor/cuda/gpu.h"

struct CUgraphExec_st;

namespace deltasane {

class GpuGraph {
 public:
  GpuGraph() = default;
  // `work` enqueues kernels and copies on the GPU's stream, which are captured and not run.
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
