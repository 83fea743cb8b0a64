// deltasane corpus prepare: data sets to one file of tokens.
#pragma once

#include <functional>
#include <memory>

namespace CLI {
class App;
}

namespace deltasane::cli {

void describe_corpus_prepare(CLI::App& corpus, const std::shared_ptr<std::function<int()>>& chosen);

}  // namespace deltasane::cli
