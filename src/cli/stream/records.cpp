#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/terminal/terminal.h"
#include "eval/stream/stream_folder.h"
#include "probe/loss_codes.h"
#include "probe/record_file.h"

namespace deltasane::cli {
namespace {

struct RecordsOptions {
  std::string folder, csv;
  bool losses = false;
};

std::string losses_csv(const probe::RecordTable& table) {
  std::string text = "stream,position,loss\n";
  for (size_t row = 0; row < size_t(table.rows); ++row) {
    const std::string& codes = table.bytes("losses")[row];
    int64_t position = table.integers("position")[row] - int64_t(codes.size());
    for (const char code : codes)
      text += fmt::format("{},{},{}\n", table.integers("stream")[row], ++position,
                          probe::loss_of_code(uint8_t(code)));
  }
  return text;
}

void warn_of_damage(const probe::RecordTable& table) {
  if (!table.damage.empty())
    fmt::print(stderr, "{}; {} rows before it are intact, {} bytes are left out\n", table.damage,
               table.rows, table.lost_bytes);
}

int show_records(const RecordsOptions& options) {
  if (options.losses && options.csv.empty())
    fail(Fault::usage, "--losses: expected it with --csv, found no folder for the table");
  const fs::path folder(options.folder);
  if (!fs::exists(folder / segments_file))
    fail(Fault::file, folder, ": expected a folder of `deltasane stream`, found no ",
         segments_file);
  if (!options.csv.empty()) fs::create_directories(options.csv);
  bool described = false;
  for (const char* const name : {segments_file, heads_file, probes_file, losses_file}) {
    if (!fs::exists(folder / name)) continue;
    const probe::RecordTable table = probe::read_records(folder / name);
    warn_of_damage(table);
    if (!described)
      for (const auto& setting : table.header.settings)
        fmt::print("{:<20} {}\n", terminal_text(setting.first), terminal_text(setting_text(setting)));
    described = true;
    std::string columns;
    for (const probe::Column& column : table.header.columns) columns += " " + column.name;
    fmt::print("{:<20} {} rows:{}\n", table.header.table, table.rows, columns);
    const bool is_losses = name == std::string_view(losses_file);
    if (options.csv.empty() || (is_losses && !options.losses)) continue;
    const fs::path path = fs::path(options.csv) / (table.header.table + ".csv");
    replace_file(path, is_losses ? losses_csv(table) : probe::csv_of(table));
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
      app.add_flag("--losses", options->losses, "and losses.csv there, with a line for each token");
      app.footer("Example:\n  deltasane records base --csv tables");
      return [options] { return show_records(*options); };
    }};

}  // namespace deltasane::cli
