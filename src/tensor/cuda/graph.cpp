#include "tensor/cuda/graph.h"

#include <cuda_runtime_api.h>

#include <utility>

namespace deltasane {
namespace {

// Ends the capture also if enqueuing fails.
class Capture {
 public:
  explicit Capture(const Gpu& gpu) : stream_(gpu.stream()) {
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  }
  ~Capture() {
    if (stream_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_) cudaGraphDestroy(graph_);
  }
  cudaGraph_t end() {
    check_cuda(cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph_));
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
};

}  // namespace

GpuGraph::GpuGraph(const Gpu& gpu, const std::function<void()>& work) {
  Capture capture(gpu);
  work();
  check_cuda(cudaGraphInstantiate(&graph_, capture.end(), 0));
}
GpuGraph::~GpuGraph() {
  if (graph_) cudaGraphExecDestroy(graph_);
}
GpuGraph::GpuGraph(GpuGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
GpuGraph& GpuGraph::operator=(GpuGraph&& other) noexcept {
  std::swap(graph_, other.graph_);
  return *this;
}

void GpuGraph::run(const Gpu& gpu) const { check_cuda(cudaGraphLaunch(graph_, gpu.stream())); }

}  // namespace deltasane
