#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "model/rwkv7/checkpoint/write.h"
#include "train/parameters.h"

namespace deltasane::cli {
namespace {

struct GraftOptions {
  std::string from, to, type;
  double alpha = 0;
  int64_t chunk = 16;
};

int graft_model(const GraftOptions& options) {
  if (!options.to.ends_with(".safetensors"))
    fail(Fault::usage, "OUT: expected a name that ends in .safetensors, found '", options.to, "'");
  const Rwkv7Checkpoint checkpoint(options.from);
  checkpoint.validate();
  const train::Parameters model = train::grafted(checkpoint, {options.alpha, options.chunk});
  StoredType type = checkpoint.type("head.weight");
  if (!options.type.empty())
    type = stored_type_named(options.type);
  else if (type != StoredType::f32 && type != StoredType::bf16)
    type = StoredType::f16;
  Metadata metadata = checkpoint.metadata();
  for (const auto& [key, value] : model.metadata()) metadata[key] = value;
  write_rwkv7_safetensors(options.to, model, type, metadata);
  const Rwkv7Shape& shape = model.layout().shape();
  fmt::print("{}: written, {}, SANE with alpha {}, chunk {}, {} parameters added\n", options.to,
             name_of(type), options.alpha, options.chunk,
             shape.layers * shape.channels * (shape.heads + 1));
  return 0;
}

}  // namespace

const Command graft{
    "graft", "add SANE's parameters to a model, to train them", [](CLI::App& app) {
      auto options = std::make_shared<GraftOptions>();
      app.add_option("MODEL", options->from, "any model file this program reads")->required();
      app.add_option("OUT", options->to, "a name that ends in .safetensors")->required();
      app.add_option("--alpha", options->alpha, "how large states may get; 1 to 10, best near 3")
          ->required();
      app.add_option("--chunk", options->chunk, "tokens between two neutralizations")
          ->capture_default_str();
      app.add_option("--type", options->type, "f32, f16 or bf16; as in the file if not given");
      app.footer(
          "w_tau begins as 0, so the model computes what --sane-alpha A does at run time.\n"
          "Example:\n  deltasane graft rwkv7-g1d-0.4b.pth sane-0.4b.safetensors --alpha 3");
      return [options] { return graft_model(*options); };
    }};

}  // namespace deltasane::cli
