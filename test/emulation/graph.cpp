// Stands for tensor/cuda/graph.cpp: a graph is the work itself, done again each time.
#include "tensor/cuda/graph.h"

#include <utility>

struct CUgraphExec_st {
  std::function<void()> work;
};

namespace deltasane {

GpuGraph::GpuGraph(const Gpu&, const std::function<void()>& work)
    : graph_(new CUgraphExec_st{work}) {}
GpuGraph::~GpuGraph() { delete graph_; }
GpuGraph::GpuGraph(GpuGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
GpuGraph& GpuGraph::operator=(GpuGraph&& other) noexcept {
  std::swap(graph_, other.graph_);
  return *this;
}
void GpuGraph::run(const Gpu&) const { graph_->work(); }

}  // namespace deltasane
