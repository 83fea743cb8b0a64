// `bench train`: describes its flags; what it returns runs it.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace deltasane::cli {

std::function<int()> describe_bench_train(CLI::App& app);

}  // namespace deltasane::cli
