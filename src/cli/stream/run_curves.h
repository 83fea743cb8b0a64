// What the figures of streams are made of: columns of records as curves, overflows, snapshots.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/stream/report.h"
#include "plot/figure.h"

namespace deltasane::cli {

// Positions of the rows of one stream, and a column beside them.
plot::Curve curve_of(const probe::RecordTable& table, std::string_view column, int64_t number,
                     const std::string& label);

int64_t streams_in(const ReportRun& run);
std::string label_of(const ReportRun& run,
                     int64_t number);  // with the stream, where there are several

// Where streams of these runs overflowed, marked on the x axis.
void add_overflows(const std::vector<const ReportRun*>& runs, plot::Chart& chart);

// Snapshots of the first stream, by position.
std::map<int64_t, fs::path> snapshots_of(const ReportRun& run);

std::string tokens_text(int64_t tokens);  // "64K" where that is exact in powers of two

}  // namespace deltasane::cli
