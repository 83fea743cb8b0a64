// The folder of a streaming run: record files, snapshots and the last checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/io/folder_lock.h"
#include "eval/stream/record_rate.h"
#include "eval/stream/stream_run.h"
#include "infer/state_file.h"
#include "model/adaptive_sane.h"
#include "probe/record_file.h"

namespace deltasane {

inline constexpr const char* segments_file = "segments.rec";
inline constexpr const char* heads_file = "heads.rec";
inline constexpr const char* probes_file = "probes.rec";
inline constexpr const char* losses_file = "losses.rec";
inline constexpr const char* speed_file = "speed.csv";
inline constexpr const char* snapshots_folder = "snapshots";

// A setting of record files as people read it: the identity of a model, which is stored in decimal, in
// hexadecimal, as `info` has it.
std::string setting_text(const probe::Settings::value_type& setting);

// Where one stream stands beside its state.
struct StreamPlace {
  corpus::Cursor cursor;
  int32_t pending = 0;  // read from the source, not yet by the model
  int64_t tokens = 0;   // predicted so far
  double loss = 0;      // their sum
  std::optional<StreamOverflow> overflow;
  AdaptiveSane adaptive;
  std::vector<float> alphas;  // of the state, which does not keep them in a file
};

struct Checkpoint {
  int64_t position = 0;
  std::vector<StreamPlace> places;
  std::vector<SequenceState> states;
};

class StreamFolder {
 public:
  // Takes the folder for this process. Fails where it holds another run's files, or any run's and
  // `existing` is refuse.
  StreamFolder(const fs::path& folder, const probe::Settings& settings, HeadRate head_rate,
               const StreamParts& parts, int64_t streams, OnExisting existing);

  std::optional<Checkpoint> begin();  // opens the records: new, or cut back to the checkpoint
  void save(const Checkpoint& checkpoint);
  void save_snapshot(int64_t stream, const SequenceState& state, int32_t pending) const;

  probe::RecordWriter& segments() { return *segments_; }
  probe::RecordWriter& heads() { return *heads_; }
  probe::RecordWriter& probes() { return *probes_; }
  probe::RecordWriter* losses() { return losses_.get(); }  // absent in a run from before them
  HeadRate head_rate() const { return head_rate_; }        // known after begin()

 private:
  struct File {
    const char* name;
    probe::RecordHeader header;
    std::unique_ptr<probe::RecordWriter>* writer;
  };
  std::vector<File> files();  // in the order of their sizes in a checkpoint
  std::optional<Checkpoint> read_checkpoint();
  void expect_same_files(const std::map<std::string, std::string>& before) const;
  void check(const Checkpoint& checkpoint) const;
  void check(const StreamPlace& place, const SequenceState& state, int64_t position) const;
  void continue_every_segment(const fs::path& path);
  void remove_leftovers() const;
  StateStamp stamp(int32_t pending) const;

  fs::path folder_;
  probe::Settings settings_;
  HeadRate head_rate_;
  bool has_losses_ = true;
  const LanguageModel& model_;
  std::string model_name_;
  int64_t streams_;
  OnExisting existing_;
  std::map<std::string, std::string> files_;  // digests of corpus and vocabulary
  uint64_t identity_;
  FolderLock lock_;
  std::unique_ptr<probe::RecordWriter> segments_, heads_, probes_, losses_;
  std::vector<uint64_t> bytes_;  // of the files, at the checkpoint
};

// The state of a stream at the last checkpoint: the end, of a run that was not killed.
fs::path checkpoint_state(const fs::path& folder, int64_t stream);

// The position in the name of a snapshot, or none for other files.
struct SnapshotName {
  int64_t stream, position;
};
std::optional<SnapshotName> snapshot_named(const fs::path& path);

}  // namespace deltasane
