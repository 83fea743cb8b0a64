#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/bench_parts.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/slow_heads.h"

namespace deltasane::cli {
namespace {

struct BenchWeightsOptions {
  std::string size, to, type = "f16";
  uint64_t seed = 1;
  SlowHeads slow;
};

int write_weights(const BenchWeightsOptions& options) {
  const Rwkv7Shape shape = released_shape(options.size);
  const RandomRwkv7 random(shape, options.seed);
  const SlowHeadsRwkv7 source(random, shape, options.slow);
  const StoredType type = stored_type_named(options.type);
  const std::string extension = fs::path(options.to).extension().string();
  if (extension == ".gguf")
    write_rwkv7_gguf(options.to, source, type, {}, {});
  else if (extension == ".safetensors")
    write_rwkv7_safetensors(options.to, source, type, {});
  else
    fail(Fault::usage, "OUT: expected a name that ends in .safetensors or .gguf, found '",
         options.to, "'");
  fmt::print("{}: written, random {}, {}, {:.1f} MB\n", options.to, options.size, name_of(type),
             double(fs::file_size(options.to)) / 1e6);
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    for (const int64_t head : source.heads_of(layer))
      fmt::print("slow head: layer {}, head {}\n", layer, head);
  return 0;
}

}  // namespace

void describe_bench_weights(CLI::App& parent, const Chosen& chosen) {
  auto options = std::make_shared<BenchWeightsOptions>();
  CLI::App* app = parent.add_subcommand(
      "weights", "write a model of random weights, to measure this program and others with");
  app->add_option("SIZE", options->size, "0.1B, 0.4B, 1.5B or 2.9B")->required();
  app->add_option("OUT", options->to, "a name that ends in .safetensors or .gguf")->required();
  app->add_option("--type", options->type, "f32, f16 or bf16; q8_0 for .gguf")
      ->capture_default_str();
  app->add_option("--seed", options->seed, "of the weights")->capture_default_str();
  app->add_option("--slow-heads", options->slow.count,
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
