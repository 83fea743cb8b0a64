// Makes a GPU the calling thread's current device, and the one before again at the end: for calls
// from programs that have a current device of their own.
#pragma once

namespace deltasane {

class CurrentGpu {
 public:
  explicit CurrentGpu(int index);  // fails if there is no such device
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace deltasane
