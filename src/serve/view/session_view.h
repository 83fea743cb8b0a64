// What onlookers see of one session: the heads of its state, how their norms grew, and the losses of
// its last tokens. Numbers of heads are sent as base64 of 16-bit floats.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probe/growth.h"
#include "probe/state_statistics.h"
#include "serve/wire/body.h"

namespace deltasane::serve {

enum class Phase { reading, writing, ended, overflow };
std::string_view name_of(Phase phase);

// What is new of a session.
struct SessionNews {
  std::string id;
  std::optional<std::string> owner;  // whose key may see it; none: everybody may
  std::string sane;                  // as ModelDescription says it
  Phase phase = Phase::reading;
  int64_t position = 0;
  std::vector<double> losses{};  // -log p of the last tokens; empty: as before
  std::optional<SequenceState> state{};
  std::optional<TauRecord> taus{};
};

// Little-endian IEEE binary16, as base64. Values beyond its range become infinities.
std::string base64_of_halves(std::span<const double> values);
std::string base64_of(std::string_view bytes);

// The statistics of every head, as plain numbers: layer, head, norm, largest, quantiles, shares.
Json heads_json(const StateLayout& layout, std::span<const probe::HeadStatistics> heads);

class SessionView {
 public:
  explicit SessionView(SessionNews first);

  void take(SessionNews news, ThreadPool& threads);

  const std::string& id() const { return news_.id; }
  bool is_visible_to(const std::string& owner) const { return !news_.owner || *news_.owner == owner; }
  bool is_pinned() const { return !news_.owner; }

  Json row() const;  // of a list of sessions
  // All that is drawn; `head`: of which the norm is shown along the positions, none: the largest.
  Json details(std::optional<int64_t> head) const;

 private:
  static constexpr size_t most_points = 256;

  void add_point();
  probe::Growth growth_of(size_t head) const;
  Json curve_of(size_t head) const;
  Json histogram() const;

  SessionNews news_;
  std::vector<probe::HeadStatistics> heads_;
  std::vector<probe::Growth> growth_;  // of each head's norm
  std::vector<int64_t> positions_;     // of the points
  std::vector<std::vector<float>> norms_;  // by point: of each head
  std::vector<double> whole_;              // by point: of the whole state
};

}  // namespace deltasane::serve
