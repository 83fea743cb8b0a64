#include "eval/stream/record_columns.h"

namespace deltasane {
namespace {

using probe::ColumnType;

std::vector<probe::Column> columns_of(std::initializer_list<const char*> integers,
                                      std::initializer_list<const char*> reals) {
  std::vector<probe::Column> columns;
  for (const char* name : integers) columns.push_back({name, ColumnType::integer});
  for (const char* name : reals) columns.push_back({name, ColumnType::real});
  return columns;
}

}  // namespace

std::vector<probe::Column> segments_columns() {
  return columns_of({"stream", "position", "tokens", "overflow", "overflow_layer", "overflow_head"},
                    {"loss_sum", "loss_total", "loss", "cumulative_loss", "perplexity",
                     "cumulative_perplexity", "norm", "largest"});
}

std::vector<probe::Column> heads_columns() {
  return columns_of(
      {"stream", "position", "layer", "head"},
      {"norm", "largest", "median", "q99", "q9999", "above_10", "above_100", "tau_mean", "tau_low",
       "tau_high", "near_identity", "transition", "saturated", small_entries_column});
}

std::vector<probe::Column> probes_columns() {
  return columns_of({"stream", "position", "asked", "correct"}, {"accuracy"});
}

std::vector<probe::Column> losses_columns() {
  std::vector<probe::Column> columns = columns_of({"stream", "position"}, {});
  columns.push_back({"losses", ColumnType::bytes});
  return columns;
}

}  // namespace deltasane
