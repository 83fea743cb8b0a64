// One alpha of a sweep: train or graft, ask, stream, ask again. What is done is marked by a file; a
// stage that was cut off continues by itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/sweep/sweep_options.h"

namespace deltasane::cli {

class SweepRun {
 public:
  SweepRun(const SweepOptions& options, double alpha);

  bool finished() const;
  bool has_model() const { return done("model"); }
  // On this device. With a log, output of commands goes there; lines about stages go to options.told().
  void all(const std::string& device, const fs::path& log) const;

  std::string name() const { return run_name(alpha_); }
  fs::path folder() const { return folder_; }
  fs::path training() const { return folder_ / "train"; }
  fs::path streaming() const { return folder_ / "stream"; }
  fs::path answers(const std::string& stage) const { return folder_ / stage / name(); }
  bool done(const std::string& stage) const { return fs::exists(folder_ / (stage + ".done")); }
  bool overflowed() const { return done("stream") && last_state().empty(); }

 private:
  struct Place {
    const std::string& device;
    const fs::path& log;
  };
  void once(const std::string& stage, const Place& place, const std::function<void()>& body) const;
  void graft(const Place& place) const;
  void train(const Place& place) const;
  void stream(const Place& place) const;
  void eval(const std::string& stage, const std::vector<std::string>& more,
            const Place& place) const;
  void add_model_flags(std::vector<std::string>& words, const Place& place) const;
  std::string model() const;
  fs::path grafted() const { return folder_ / "model.safetensors"; }
  fs::path last_state() const;  // of the stream at its end; empty: it overflowed, or is not done

  const SweepOptions& options_;
  double alpha_;
  fs::path folder_;
};

}  // namespace deltasane::cli
