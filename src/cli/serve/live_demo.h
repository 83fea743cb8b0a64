// The demonstration for a browser: the shipped pair reads the same text, one model with SANE and one
// without, is asked the same questions along the way, and onlookers of a server see both.
#pragma once

#include <atomic>
#include <thread>

#include "cli/stream/demo_pair.h"
#include "model/language_model.h"
#include "serve/service.h"

namespace deltasane::cli {

class LiveDemo {
 public:
  // `threads`: of the computation. `service` outlives it, and its board is shown.
  LiveDemo(DemoPair pair, serve::Service& service, int threads);
  ~LiveDemo();  // stops reading

 private:
  void run();

  const DemoPair pair_;
  serve::Service& service_;
  const int thread_count_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace deltasane::cli
