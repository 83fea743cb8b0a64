#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "eval/stream/stream_folder.h"
#include "probe/record_file.h"

namespace deltasane::cli {
namespace {

struct RecordsOptions {
  std::string folder, csv;
};

void warn_of_damage(const probe::RecordTable& table) {
  if (!table.damage.empty())
    fmt::print(stderr, "{}; {} rows before it are intact, {} bytes are left out\n", table.damage,
               table.rows, table.lost_bytes);
}

int show_records(const RecordsOptions& options) {
  const fs::path folder(options.folder);
  if (!fs::exists(folder / segments_file))
    fail(Fault::file, folder, ": expected a folder of `deltasane stream`, found no ",
         segments_file);
  if (!options.csv.empty()) fs::create_directories(options.csv);
  bool described = false;
  for (const char* const name : {segments_file, heads_file, probes_file}) {
    if (!fs::exists(folder / name)) continue;
    const probe::RecordTable table = probe::read_records(folder / name);
    warn_of_damage(table);
    if (!described)
      for (const auto& [key, value] : table.header.settings) fmt::print("{:<20} {}\n", key, value);
    described = true;
    std::string columns;
    for (const probe::Column& column : table.header.columns) columns += " " + column.name;
    fmt::print("{:<20} {} rows:{}\n", table.header.table, table.rows, columns);
    if (options.csv.empty()) continue;
    const fs::path path = fs::path(options.csv) / (table.header.table + ".csv");
    replace_file(path, probe::csv_of(table));
    fmt::print("{:<20} {}\n", "written", path.string());
  }
  return 0;
}

}  // namespace

const Command records{
    "records", "what a stream recorded, and its tables as CSV", [](CLI::App& app) {
      auto options = std::make_shared<RecordsOptions>();
      app.add_option("DIR", options->folder, "a folder that `deltasane stream` wrote")->required();
      app.add_option("--csv", options->csv, "write segments.csv, heads.csv, probes.csv here");
      app.footer("Example:\n  deltasane records base --csv tables");
      return [options] { return show_records(*options); };
    }};

}  // namespace deltasane::cli
