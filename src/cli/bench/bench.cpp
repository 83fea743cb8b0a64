#include <CLI/CLI.hpp>

#include "cli/bench/bench_parts.h"
#include "cli/command.h"

namespace deltasane::cli {

const Command bench{"bench", "measure speed against this machine's limits", [](CLI::App& app) {
                      const auto chosen = std::make_shared<std::function<int()>>();
                      app.require_subcommand(1);
                      describe_bench_kernel(app, chosen);
                      describe_bench_load(app, chosen);
                      describe_bench_model(app, chosen);
                      describe_bench_stream(app, chosen);
                      describe_bench_train(app, chosen);
                      describe_bench_weights(app, chosen);
                      app.footer(
                          "Examples:\n  deltasane bench kernel --threads 1\n"
                          "  deltasane bench model model.gguf --threads 2\n"
                          "  deltasane bench stream model.gguf --sane-alpha 3");
                      return [chosen] { return (*chosen)(); };
                    }};

}  // namespace deltasane::cli
