#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/bench/bench_parts.h"
#include "model/registry.h"

namespace deltasane::cli {
namespace {

struct BenchWeightsOptions {
  std::string to, type = "f16";
  std::string architecture{architectures().front().name};
  RandomModel model;
};

double written_bytes(const fs::path& to) {
  if (!fs::is_directory(to)) return double(fs::file_size(to));
  double sum = 0;
  for (const auto& file : fs::directory_iterator(to)) sum += double(file.file_size());
  return sum;
}

int write_weights(const BenchWeightsOptions& options) {
  const Architecture& wanted = architecture_named(options.architecture);
  if (!wanted.write_random)
    fail(Fault::usage, "--architecture: expected one with random models, found ", wanted.name);
  const std::vector<StateHead> planted =
      wanted.write_random(options.model, options.to, matrix_types_named(options.type));
  fmt::print("{}: written, random {}, {}, {:.1f} MB\n", options.to, options.model.size,
             options.type, written_bytes(options.to) / 1e6);
  for (const StateHead& head : planted)
    fmt::print("slow head: layer {}, head {}\n", head.layer, head.head);
  return 0;
}

}  // namespace

void describe_bench_weights(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchWeightsOptions>();
  CLI::App* app = parent.add_subcommand(
      "weights", "write a model of random weights, to measure this program and others with");
  app->add_option("SIZE", options->model.size, "of a released model, such as 0.4B; another name lists them")
      ->required();
  app->add_option("OUT", options->to, "a name that ends in .safetensors, in .gguf, or in /: a folder as Hugging Face has "
                  "it, where the architecture has such folders")->required();
  app->add_option("--type", options->type, "f32, f16 or bf16; for .gguf also a quantized one: see convert")
      ->capture_default_str();
  app->add_option("--architecture", options->architecture, "of the model")->capture_default_str();
  app->add_option("--seed", options->model.seed, "of the weights")->capture_default_str();
  app->add_option("--slow-heads", options->model.slow_heads,
                  "plant so many heads, spread over the layers, that never forget: decay 1 and an "
                  "erase rate near 0 that goes against the keys, so that the state grows "
                  "exponentially and overflows within a million tokens, but not with SANE")
      ->capture_default_str();
  app->footer(
      "Examples:\n  deltasane bench weights 0.4B random-0.4b.gguf --type q8_0\n"
      "  deltasane bench weights 0.4B planted.safetensors --type bf16 --slow-heads 4\n"
      "  deltasane bench stream planted.safetensors --tokens 1048576               # overflows\n"
      "  deltasane bench stream planted.safetensors --tokens 1048576 --sane-alpha 3");
  app->callback([=] { *chosen = [options] { return write_weights(*options); }; });
}

}  // namespace deltasane::cli
