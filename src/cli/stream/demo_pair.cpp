#include "cli/stream/demo_pair.h"

#include "base/cat.h"

namespace deltasane::cli {
namespace {

constexpr const char* shipped_baseline = "arithmetic-baseline.safetensors";
constexpr const char* shipped_sane = "arithmetic-sane-3.safetensors";

fs::path models_folder() {
  std::error_code none;  // where the program cannot be told, here is the only place
  for (fs::path above = fs::read_symlink("/proc/self/exe", none); above.has_relative_path();
       above = above.parent_path())
    if (fs::exists(above.parent_path() / "models" / shipped_baseline))
      return above.parent_path() / "models";
  return "models";
}

}  // namespace

std::optional<DemoPair> shipped_pair(const fs::path& wanted) {
  const fs::path folder = wanted.empty() ? models_folder() : wanted;
  const fs::path baseline = folder / shipped_baseline, sane = folder / shipped_sane;
  if (!fs::exists(baseline) || !fs::exists(sane)) return std::nullopt;
  const std::string brief = "level=2,style=brief,family=addition+subtraction";
  const std::string corpus = cat("mixed:0.7*(math-chat:seed=9,split=train,", brief,
                                 ")+0.3*(math-chat:seed=9,split=train,level=1-2,style=sentence,"
                                 "family=addition+subtraction+comparison+story)");
  return DemoPair{baseline, sane, {corpus, cat(brief, ",split=held-out"), 131072}, "shipped"};
}

}  // namespace deltasane::cli
