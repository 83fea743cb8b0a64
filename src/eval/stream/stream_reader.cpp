#include "eval/stream/stream_reader.h"

#include <algorithm>
#include <cmath>

#include "infer/state_scan.h"

namespace deltasane {
namespace {

// Streams begin this far apart in the source, so that they do not meet.
constexpr uint64_t pieces_apart = 1'000'000'000'000;

StreamPlace beginning_of(int64_t stream) {
  StreamPlace place;
  place.cursor.piece = uint64_t(stream) * pieces_apart;
  return place;
}

}  // namespace

StreamReader::StreamReader(const StreamParts& parts, int64_t stream, Strength strength)
    : StreamReader(parts, stream, strength, beginning_of(stream), parts.model.fresh_state()) {
  source_.read({&place_.pending, 1});
}

StreamReader::StreamReader(const StreamParts& parts, int64_t stream, Strength strength,
                           const StreamPlace& place, SequenceState state)
    : parts_(parts),
      stream_(stream),
      has_sane_(parts.model.sane().kind != SaneKind::none),
      is_adaptive_(strength == Strength::adaptive),
      state_(std::move(state)),
      place_(place),
      source_(parts.source, parts.tokenizer, place.cursor),
      taus_(*parts.model.state_layout()) {
  state_.alphas = place.alphas;
}

StreamPlace StreamReader::place() const {
  StreamPlace place = place_;
  place.cursor = source_.cursor();
  place.alphas = state_.alphas;
  return place;
}

void StreamReader::begin_segment() {
  segment_tokens_ = 0, segment_loss_ = 0;
  segment_losses_.clear();
  taus_.clear();
}

int64_t StreamReader::block_until(int64_t position) const {
  return std::min(position - state_.position,
                  parts_.model.prefill_chunk() - state_.position % parts_.model.tile());
}

void StreamReader::read_to(int64_t position, std::span<StreamReader> readers) {
  for (;;) {
    std::vector<StreamReader*> reading;
    for (StreamReader& reader : readers)
      if (!reader.broken() && reader.state_.position < position) reading.push_back(&reader);
    if (reading.empty()) return;
    const StreamParts& parts = reading[0]->parts_;
    const int64_t some = reading[0]->block_until(position);
    std::vector<Block> blocks;
    std::vector<SequenceInput> sequences;
    for (StreamReader* const reader : reading) blocks.push_back(reader->begin_block(some));
    for (size_t i = 0; i < reading.size(); ++i)
      sequences.push_back(reading[i]->scored(blocks[i].tokens, blocks[i].losses));
    parts.model.forward(sequences, parts.cpu);
    bool all_finite = true;
    for (size_t i = 0; i < reading.size(); ++i)
      all_finite = all_finite && reading[i]->is_finite(blocks[i].losses);
    for (size_t i = 0; i < reading.size(); ++i) {
      if (!all_finite) reading[i]->go_back(blocks[i]);
      if (all_finite || reading[i]->try_block(blocks[i].tokens, blocks[i].losses)) {
        reading[i]->end_block(blocks[i]);
        continue;
      }
      reading[i]->go_back(blocks[i]);
      reading[i]->locate_overflow(blocks[i].tokens, blocks[i].losses);
    }
  }
}

StreamReader::Block StreamReader::begin_block(int64_t tokens) {
  Block block{std::vector<int32_t>(size_t(tokens) + 1), std::vector<double>(size_t(tokens)),
              state_.clone(), taus_, place_.adaptive};
  block.tokens[0] = place_.pending;
  source_.read(std::span(block.tokens).subspan(1));
  return block;
}

void StreamReader::end_block(const Block& block) {
  count(block.losses);
  place_.pending = block.tokens.back();
}

void StreamReader::go_back(const Block& block) {
  state_ = block.state.clone();
  taus_ = block.taus;
  place_.adaptive = block.adaptive;
}

SequenceInput StreamReader::scored(std::span<const int32_t> tokens, std::span<double> losses) {
  const size_t some = tokens.size() - 1;
  SequenceInput input{tokens.first(some), &state_, Want::losses};
  input.targets = tokens.last(some), input.losses = losses;
  if (has_sane_) input.taus = &taus_;
  if (is_adaptive_) input.adaptive = &place_.adaptive;
  return input;
}

bool StreamReader::is_finite(std::span<const double> losses) const {
  return std::ranges::all_of(losses, [](double loss) { return std::isfinite(loss); }) &&
         scan_state(state_).finite();
}

bool StreamReader::try_block(std::span<const int32_t> tokens, std::span<double> losses) {
  parts_.model.forward(scored(tokens, losses), parts_.cpu);
  return is_finite(losses);
}

void StreamReader::count(std::span<const double> losses) {
  for (const double loss : losses) segment_loss_ += loss, place_.loss += loss;
  segment_losses_.insert(segment_losses_.end(), losses.begin(), losses.end());
  segment_tokens_ += int64_t(losses.size());
  place_.tokens += int64_t(losses.size());
}

// Reads the block again in smaller parts, at last a token at a time, up to the last token that left
// all numbers finite. What overflows there is found in that state: an infinity in one layer is NaN
// in all later ones at once, so the place of the first NaN says little.
void StreamReader::locate_overflow(std::span<const int32_t> tokens, std::span<double> losses) {
  const int64_t tile = parts_.model.tile();
  for (const int64_t step : {256 * tile, 16 * tile, tile, int64_t{1}}) {
    while (tokens.size() > 1) {
      const auto some =
          std::min(tokens.size() - 1, size_t(step - (step > 1 ? state_.position % step : 0)));
      const SequenceState before = state_.clone();
      const TauRecord taus_before = taus_;
      const AdaptiveSane adaptive_before = place_.adaptive;
      if (!try_block(tokens.first(some + 1), losses.first(some))) {
        state_ = before.clone();
        taus_ = taus_before;
        place_.adaptive = adaptive_before;
        break;
      }
      count(losses.first(some));
      tokens = tokens.subspan(some);
    }
  }
  place_.pending = tokens[0];
  StreamOverflow overflow{.stream = stream_, .position = state_.position};
  for (const StateHead& head : state_.layout().heads()) {
    const auto largest = double(largest_magnitude(state_.of(head)));
    if (largest <= overflow.largest) continue;
    overflow.largest = largest;
    overflow.layer = head.layer, overflow.head = head.head;
  }
  place_.overflow = overflow;
}

}  // namespace deltasane
