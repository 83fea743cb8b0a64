#include "model/device.h"

#include <charconv>

#include "base/error.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {

Device device_named(std::string_view name) {
  constexpr std::string_view cuda = "cuda";
  if (name == "cpu") return {};
  std::optional<int> index;
  if (name == cuda) index = 0;
  if (name.starts_with("cuda:")) {
    const char* const end = name.data() + name.size();
    int number = -1;
    const auto [stop, error] = std::from_chars(name.data() + cuda.size() + 1, end, number);
    if (error == std::errc() && stop == end && number >= 0) index = number;
  }
  if (!index) fail(Fault::usage, "device: expected cpu, cuda or cuda:N, found '", name, "'");
  if (!built_with_cuda)
    fail(Fault::usage, "device ", name, ": this build has no CUDA backend; build with make cuda");
  return {index};
}

std::string to_string(const Device& device) {
  return device.gpu ? cat("cuda:", *device.gpu) : "cpu";
}

}  // namespace deltasane
