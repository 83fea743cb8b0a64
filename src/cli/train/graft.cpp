#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/open_model.h"
#include "model/train/trainable_model.h"

namespace deltasane::cli {
namespace {

struct GraftOptions {
  std::string from, to, type;
  double alpha = 0;
  int64_t chunk = 16;
  bool allow_nonfinite = false;
};

int graft_model(const GraftOptions& options) {
  if (!options.to.ends_with(".safetensors"))
    fail(Fault::usage, "OUT: expected a name that ends in .safetensors, found '", options.to, "'");
  GraftRequest request{options.from, options.to, {options.alpha, options.chunk}, std::nullopt,
                       options.allow_nonfinite ? NonFiniteWeights::allow : NonFiniteWeights::refuse};
  if (!options.type.empty()) request.type = stored_type_named(options.type);
  GraftReport report{};
  explain_nonfinite([&] { report = trainable_factory_of(request.from).graft(request); });
  fmt::print("{}: written, {}, SANE with alpha {}, chunk {}, {} parameters added\n", options.to,
             name_of(report.type), options.alpha, options.chunk, report.added);
  return 0;
}

}  // namespace

const Command graft{
    "graft", "add SANE's parameters to a model, to train them", [](CLI::App& app) {
      auto options = std::make_shared<GraftOptions>();
      app.add_option("MODEL", options->from, "any model file this program reads")->required();
      app.add_option("OUT", options->to, "a name that ends in .safetensors")->required();
      app.add_option("--alpha", options->alpha, "SANE's strength, above 0: 5, or 3 to 10 (docs/choosing-alpha.md)")
          ->required();
      app.add_option("--chunk", options->chunk, "tokens between two neutralizations")
          ->capture_default_str();
      app.add_option("--type", options->type, "f32, f16 or bf16; as in the file if not given");
      describe_allow_nonfinite(app, options->allow_nonfinite);
      app.footer(
          "w_tau begins as 0, so the model computes what --sane-alpha A does at run time.\n"
          "Example:\n  deltasane graft model.pth sane.safetensors --alpha 5");
      return [options] { return graft_model(*options); };
    }};

}  // namespace deltasane::cli
