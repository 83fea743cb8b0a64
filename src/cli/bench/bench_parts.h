// The parts of `deltasane bench`, one file each. Each adds its subcommand, which sets `chosen`.
#pragma once

#include <functional>
#include <memory>

namespace CLI {
class App;
}

namespace deltasane::cli {

using Chosen = std::shared_ptr<std::function<int()>>;

void describe_bench_kernel(CLI::App& parent, const Chosen& chosen);
void describe_bench_load(CLI::App& parent, const Chosen& chosen);
void describe_bench_model(CLI::App& parent, const Chosen& chosen);
void describe_bench_stream(CLI::App& parent, const Chosen& chosen);
void describe_bench_train(CLI::App& parent, const Chosen& chosen);
void describe_bench_weights(CLI::App& parent, const Chosen& chosen);

}  // namespace deltasane::cli
