#include "kernel/matmul/weight_type_named.h"

#include "base/error.h"
#include "base/type_name.h"

namespace deltasane::kernel {

WeightType weight_type_named(std::string_view name, std::string_view what) {
  const std::string wanted = type_name(name);
  for (const WeightType type : weight_types)
    if (wanted == type_name(name_of(type))) return type;
  const bool is_mixture = wanted.ends_with("_k_m");
  fail(Fault::usage, what, ": expected ", weight_types_text, ", found ",
       is_mixture ? "the mixture '" : "'", name, "'",
       is_mixture ? cat("; a file has mixtures: convert --type ", wanted, ". All matrices alike: ",
                        wanted.substr(0, wanted.size() - 2))
                  : "");
}

}  // namespace deltasane::kernel
