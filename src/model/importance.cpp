#include "model/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "format/safetensors/safetensors.h"

namespace deltasane {

Importance Importance::read(const fs::path& path) {
  Importance importance;
  importance.name_ = path.string();
  const TensorFile file = open_safetensors(path);
  for (const StoredTensor& tensor : file.tensors()) {
    const Tensor<float> squares = file.read(tensor);
    if (squares.shape().rank() != 1)
      fail(Fault::file, path, ": tensor ", tensor.name, ": expected one dimension, found ",
           squares.shape().rank());
    for (const float square : squares.span())
      if (!(square >= 0) || !std::isfinite(square))
        fail(Fault::file, path, ": tensor ", tensor.name,
             ": expected mean squares, 0 or more, found ", square);
    importance.squares_[tensor.name].assign(squares.span().begin(), squares.span().end());
  }
  return importance;
}

std::vector<float> Importance::of(const std::string& matrix, int64_t inputs) const {
  const auto found = squares_.find(matrix);
  if (found == squares_.end() || int64_t(found->second.size()) != inputs)
    fail(Fault::file, name_, ": expected ", inputs, " numbers for ", matrix, ", found ",
         found == squares_.end() ? "none" : std::to_string(found->second.size()),
         "; make it of the same model");
  double sum = 0;
  for (const float square : found->second) sum += double(square);
  // A hundredth of the mean for inputs that the text did not use.
  const auto least = sum > 0 ? float(sum / double(inputs) / 100) : 1.0f;
  std::vector<float> costs = found->second;
  for (float& cost : costs) cost = std::max(cost, least);
  return costs;
}

void write_importance(const fs::path& path, const LanguageModel& model,
                      const kernel::InputSquares& squares) {
  std::map<std::string, Tensor<float>> means;
  std::vector<PlannedTensor> plan;
  for (const auto& [name, weights] : model.matrices()) {
    const kernel::InputSquares::Of* const of = squares.of(*weights);
    if (!of) continue;
    Tensor<float> mean({weights->in()});
    for (int64_t i = 0; i < weights->in(); ++i)
      mean[i] = float(of->sums[size_t(i)] / double(of->tokens));
    plan.push_back({name, StoredType::f32, mean.shape()});
    means.emplace(name, std::move(mean));
  }
  if (plan.empty())
    fail(Fault::argument, path, ": expected a text that a model on the CPU has read, found none");
  write_safetensors(path, std::move(plan), {{"content", "mean squares of the inputs of matrices"}},
                    [&](const PlannedTensor& tensor, const Sink& sink) {
                      sink(std::as_bytes(means.at(tensor.name).span()));
                    });
}

}  // namespace deltasane
