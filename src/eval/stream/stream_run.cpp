#include "eval/stream/stream_run.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <future>

#include "base/timing.h"
#include "eval/stream/record_columns.h"
#include "eval/stream/stream_folder.h"
#include "eval/stream/stream_reader.h"
#include "probe/loss_codes.h"
#include "probe/memory_shapes.h"
#include "probe/state_statistics.h"

namespace deltasane {
namespace {

int64_t next_multiple(int64_t position, int64_t step) { return (position / step + 1) * step; }

void check_settings(const StreamSettings& s, int64_t tile) {
  const auto expect = [](bool holds, const char* setting, const std::string& what, int64_t found) {
    if (!holds) fail(Fault::usage, setting, ": expected ", what, ", found ", found);
  };
  constexpr int64_t most = int64_t{1} << 53;  // sums and products of these fit into 64 bits
  expect(s.tokens > 0 && s.tokens <= most, "tokens", "1 to 2^53", s.tokens);
  expect(s.segment > 0 && s.segment <= 1 << 30 && s.segment % tile == 0, "segment",
         cat("a positive multiple of ", tile, " up to 2^30"), s.segment);
  expect(s.heads_every >= 0 && s.heads_every % s.segment == 0, "heads-every",
         cat("a multiple of the segment, ", s.segment), s.heads_every);
  expect(s.streams > 0 && s.streams <= 4096, "streams", "1 to 4096", s.streams);
  expect(s.checkpoint_every > 0 && s.checkpoint_every <= most, "checkpoint-every", "1 to 2^53",
         s.checkpoint_every);
  expect(s.probe_every >= 0 && s.probe_every <= most, "probe-every", "0 to 2^53", s.probe_every);
  expect(!s.probes() || (s.probe_problems > 0 && s.probe_problems <= 1 << 20), "probe-problems",
         "1 to 2^20", s.probe_problems);
  for (const int64_t position : s.probe_at)
    expect(position >= 0, "probe-at", "positions from 0", position);
  if (s.snapshots)
    for (const int64_t position : *s.snapshots)
      expect(position > 0, "snapshots", "positions above 0", position);
}

// What there is to record at the end of a segment.
struct Segment {
  int64_t stream = 0, position = 0, tokens = 0;
  double loss = 0;
  std::string loss_codes;  // of each token
  StreamPlace place;
  std::optional<TauRecord> taus;
  SequenceState state;  // a copy, where its statistics are made while the stream continues
};

class StreamRunner {
 public:
  StreamRunner(const StreamParts& parts, const StreamSettings& settings, const fs::path& folder,
             OnExisting existing)
      : parts_(parts),
        settings_(settings),
        folder_(folder, settings_of(parts, settings), {settings.heads_every}, parts,
                settings.streams, existing),
        path_(folder),
        snapshots_(settings.snapshots.value_or(default_snapshots(settings.tokens))) {
    std::ranges::sort(snapshots_);
    begin();
  }

  StreamOutcome run(const std::function<void(const StreamProgress&)>& progress) {
    const double begun = seconds_now();
    const int64_t began_at = position_;
    bool saved = true;
    while (position_ < settings_.tokens && !all_broken()) {
      outcome_.stopped = parts_.is_stopped();
      if (outcome_.stopped) break;
      const double segment_begun = seconds_now();
      const int64_t from = position_;
      position_ = std::min(settings_.tokens, next_multiple(position_, settings_.segment));
      read_segment(from);
      write_speed(position_ - from, seconds_now() - segment_begun);
      const bool due = position_ / settings_.checkpoint_every != from / settings_.checkpoint_every;
      saved = due || position_ == settings_.tokens || all_broken();
      if (saved) save();
      report(progress, began_at);
    }
    if (!saved) save();
    outcome_.seconds = seconds_now() - begun;
    outcome_.position = position_;
    for (const StreamReader& reader : readers_) {
      const StreamPlace place = reader.place();
      outcome_.tokens_read += reader.state().position;
      outcome_.cumulative_loss.push_back(place.loss / double(place.tokens));
      if (place.overflow) outcome_.overflows.push_back(*place.overflow);
    }
    return outcome_;
  }

 private:
  void begin() {
    std::optional<Checkpoint> checkpoint = folder_.begin();
    readers_.reserve(size_t(settings_.streams));
    const auto strength =
        settings_.adaptive ? StreamReader::Strength::adaptive : StreamReader::Strength::fixed;
    for (int64_t i = 0; i < settings_.streams; ++i) {
      if (checkpoint)
        readers_.emplace_back(parts_, i, strength, checkpoint->places[size_t(i)],
                              std::move(checkpoint->states[size_t(i)]));
      else
        readers_.emplace_back(parts_, i, strength);
    }
    if (checkpoint) {
      outcome_.resumed_at = position_ = checkpoint->position;
    } else if (settings_.probes_at(0)) {
      for (const StreamReader& reader : readers_) ask(reader);
    }
  }

  bool all_broken() const {
    return std::ranges::all_of(readers_, [](const StreamReader& r) { return r.broken(); });
  }

  // All streams side by side, up to position_. Stops inside the segment where a snapshot or
  // questions are due.
  void read_segment(int64_t from) {
    std::vector<const StreamReader*> reading;
    for (StreamReader& reader : readers_) {
      if (reader.broken()) continue;
      reader.begin_segment();
      reading.push_back(&reader);
    }
    for (int64_t here = from; here < position_;) {
      here = next_stop(here);
      StreamReader::read_to(here, readers_);
      for (const StreamReader* const reader : reading)
        if (!reader->broken()) look(*reader, here);
    }
    for (const StreamReader* const reader : reading) record(*reader);
  }

  int64_t next_stop(int64_t here) const {
    int64_t stop = position_;
    const auto snapshot = std::ranges::upper_bound(snapshots_, here);
    if (snapshot != snapshots_.end()) stop = std::min(stop, *snapshot);
    if (settings_.probe_every > 0)
      stop = std::min(stop, next_multiple(here, settings_.probe_every));
    for (const int64_t position : settings_.probe_at)
      if (position > here) stop = std::min(stop, position);
    return stop;
  }

  void look(const StreamReader& reader, int64_t position) {
    if (std::ranges::binary_search(snapshots_, position)) {
      const double begun = seconds_now();
      folder_.save_snapshot(reader.stream(), reader.state(), reader.place().pending);
      outcome_.recording_seconds += seconds_now() - begun;
    }
    if (settings_.probes_at(position)) ask(reader);
  }

  void ask(const StreamReader& reader) {
    const ProbeOutcome found = parts_.probe(reader.state(), settings_.probe_problems);
    probe::RecordWriter& rows = folder_.probes();
    for (const int64_t value :
         {reader.stream(), reader.state().position, found.asked, found.correct})
      rows.add(value);
    rows.add(found.asked ? double(found.correct) / double(found.asked) : 0.0);
    rows.append();
  }

  // On a GPU the stream continues at once: the processors have nothing else to do than statistics.
  void record(const StreamReader& reader) {
    write_record();
    const double begun = seconds_now();
    segment_ = Segment{reader.stream(),
                       reader.state().position,
                       reader.segment_tokens(),
                       reader.segment_loss(),
                       probe::loss_codes(reader.segment_losses()),
                       reader.place(),
                       std::nullopt,
                       SequenceState()};
    if (reader.taus()) segment_->taus = *reader.taus();
    const TauRecord* const taus = segment_->taus ? &*segment_->taus : nullptr;
    if (parts_.model.on_gpu()) {
      segment_->state = reader.state().clone();
      statistics_ = std::async(std::launch::async, [this, taus] {
        return probe::statistics_of(segment_->state, taus, parts_.cpu.threads);
      });
      outcome_.recording_seconds += seconds_now() - begun;
      return;
    }
    std::promise<std::vector<probe::HeadStatistics>> made;
    made.set_value(probe::statistics_of(reader.state(), taus, parts_.cpu.threads));
    statistics_ = made.get_future();
    outcome_.recording_seconds += seconds_now() - begun;
    write_record();
  }

  // Of the segment whose statistics are made or being made, if there is one.
  void write_record() {
    if (!statistics_.valid()) return;
    const double begun = seconds_now();
    const std::vector<probe::HeadStatistics> heads = statistics_.get();
    const Segment& segment = *segment_;
    record_segment(segment, heads);
    record_losses(segment);
    if (segment.place.overflow || folder_.head_rate().due(segment.position, settings_.segment))
      record_heads(segment, heads);
    outcome_.recording_seconds += seconds_now() - begun;
  }

  void record_losses(const Segment& segment) {
    probe::RecordWriter* const rows = folder_.losses();
    if (rows == nullptr) return;
    rows->add(segment.stream);
    rows->add(segment.position);
    rows->add(segment.loss_codes);
    rows->append();
  }

  void record_heads(const Segment& segment, std::span<const probe::HeadStatistics> heads) {
    const std::span<const StateHead> places = parts_.model.state_layout()->heads();
    probe::RecordWriter& rows = folder_.heads();
    const bool has_small_entries =
        rows.header().columns.back().name == small_entries_column;  // not in older runs
    for (size_t i = 0; i < heads.size(); ++i) {
      const probe::HeadStatistics& h = heads[i];
      for (const int64_t value :
           {segment.stream, segment.position, places[i].layer, places[i].head})
        rows.add(value);
      for (const double value :
           {h.norm, h.largest, h.median, h.q99, h.q9999, h.above_10, h.above_100})
        rows.add(value);
      const TauRecord::Head tau = segment.taus ? (*segment.taus)[i] : TauRecord::Head();
      rows.add(tau.count ? tau.sum / double(tau.count) : 0.0);
      for (const double value :
           {double(tau.low), double(tau.high), h.near_identity, h.transition, h.saturated})
        rows.add(value);
      if (has_small_entries) rows.add(h.below_01);
    }
    rows.append();
  }

  void record_segment(const Segment& segment, std::span<const probe::HeadStatistics> heads) {
    const StreamPlace& place = segment.place;
    const double loss = segment.tokens ? segment.loss / double(segment.tokens) : 0.0;
    const double cumulative = place.tokens ? place.loss / double(place.tokens) : 0.0;
    double largest = 0;
    for (const auto& head : heads) largest = std::max(largest, head.largest);
    const StreamOverflow overflow = place.overflow.value_or(StreamOverflow());
    probe::RecordWriter& rows = folder_.segments();
    for (const int64_t value : {segment.stream, segment.position, segment.tokens,
                                int64_t(place.overflow.has_value()), overflow.layer, overflow.head})
      rows.add(value);
    for (const double value : {segment.loss, place.loss, loss, cumulative, std::exp(loss),
                               std::exp(cumulative), probe::whole_norm(heads), largest})
      rows.add(value);
    rows.append();
    last_ = {position_,  settings_.tokens,         0,      0, loss,
             cumulative, probe::whole_norm(heads), largest};
  }

  void save() {
    write_record();
    const double begun = seconds_now();
    Checkpoint checkpoint{position_, {}, {}};
    for (const StreamReader& reader : readers_) {
      checkpoint.places.push_back(reader.place());
      checkpoint.states.push_back(reader.state().clone());
    }
    folder_.save(checkpoint);
    outcome_.recording_seconds += seconds_now() - begun;
  }

  // For people; it depends on the clock, so it is no part of the records.
  void write_speed(int64_t tokens, double seconds) const {
    std::ofstream file(path_ / speed_file, std::ios::app);
    if (file.tellp() == 0) file << "position,tokens_per_second\n";
    file << cat(position_, ",", double(tokens * settings_.streams) / seconds, "\n");
  }

  void report(const std::function<void(const StreamProgress&)>& progress, int64_t began_at) const {
    if (last_.tokens == 0) return;  // the first segment's figures are still being made
    StreamProgress now = last_;
    now.position = position_, now.began_at = began_at;
    now.streams = std::ranges::count_if(readers_, [](const auto& r) { return !r.broken(); });
    progress(now);
  }

  const StreamParts& parts_;
  const StreamSettings& settings_;
  StreamFolder folder_;
  fs::path path_;
  std::vector<int64_t> snapshots_;
  std::vector<StreamReader> readers_;
  int64_t position_ = 0;
  StreamProgress last_{};
  StreamOutcome outcome_;
  std::optional<Segment> segment_;
  std::future<std::vector<probe::HeadStatistics>> statistics_;  // of segment_
};

std::string joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += cat(text.empty() ? "" : ",", number);
  return text;
}

}  // namespace

std::vector<int64_t> default_snapshots(int64_t tokens) {
  std::vector<int64_t> positions;
  for (const int64_t position : {4 << 10, 64 << 10, 512 << 10})
    if (position <= tokens) positions.push_back(position);
  for (int64_t position = 1 << 20; position <= tokens; position *= 2) positions.push_back(position);
  return positions;
}

bool StreamSettings::probes_at(int64_t position) const {
  return (probe_every > 0 && position % probe_every == 0) ||
         std::ranges::find(probe_at, position) != probe_at.end();
}

std::string to_string(const StreamOverflow& overflow) {
  return cat("stream ", overflow.stream, " overflowed after ", overflow.position, " tokens: layer ",
             overflow.layer, ", head ", overflow.head, " had |S| up to ", overflow.largest);
}

probe::Settings settings_of(const StreamParts& parts, const StreamSettings& settings) {
  probe::Settings made{
      {"model", parts.model_name},
      {"model_identity", cat(parts.model.identity())},
      {"weights", cat(parts.model.weight_type(), parts.model.on_gpu() ? " on a GPU" : "")},
      {"sane", to_string(parts.model.sane())},
      {"corpus", parts.source.description()},
      {"tokenizer", std::string(parts.tokenizer.name())}};
  for (auto& one : probe::MemoryShapes(*parts.model.state_layout()).settings())
    made.push_back(std::move(one));
  const probe::Settings rest{
      {"segment", cat(settings.segment)},
      {"streams", cat(settings.streams)},
      {"snapshots", settings.snapshots ? joined(*settings.snapshots) : "default"},
      {"probe_every", cat(settings.probe_every)},
      {"probe_problems", cat(settings.probe_problems)},
      {"probe_source", settings.probe_source}};
  made.insert(made.end(), rest.begin(), rest.end());
  if (!settings.probe_at.empty()) made.emplace_back("probe_at", joined(settings.probe_at));
  if (settings.adaptive) made.emplace_back("sane_adaptive", AdaptiveSane::description());
  return made;
}

StreamOutcome run_stream(const StreamParts& parts, const StreamSettings& settings,
                         const fs::path& folder, OnExisting existing,
                         const std::function<void(const StreamProgress&)>& progress) {
  check_settings(settings, parts.model.tile());
  if (parts.tokenizer.vocabulary_size() > parts.model.vocabulary())
    fail(Fault::usage, "tokenizer ", parts.tokenizer.name(), ": expected at most ",
         parts.model.vocabulary(), " tokens, as the model has, found ",
         parts.tokenizer.vocabulary_size());
  if (settings.adaptive && parts.model.sane().kind == SaneKind::none)
    fail(Fault::usage, "adaptive SANE: expected a model with SANE, trained or put on it, found none");
  return StreamRunner(parts, settings, folder, existing).run(progress);
}

}  // namespace deltasane
