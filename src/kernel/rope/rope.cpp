#include "kernel/rope/rope.h"

#include <cmath>
#include <vector>

#include "kernel/rope/reference.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {
namespace {

enum class Turn { forward, back };

void rotate(const Rope& op, Turn turn, const Cpu& cpu) {
  const Shape& shape = op.x.shape;
  if (shape.rank() != 3 || op.x.stride[2] != 1)
    fail(Fault::argument, "x: expected (time, head, channel) with contiguous channels, found ",
         shape);
  if (op.rotary < 0 || op.rotary > shape[2] || op.rotary % 2 != 0)
    fail(Fault::argument, "rotary: expected an even number up to ", shape[2], ", found ",
         op.rotary);
  const int64_t half = op.rotary / 2;
  each_row(shape[0], cpu, [&](int64_t t) {
    std::vector<float> cosine, sine;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = reference::rope_angle(op.position + t, i, op.rotary, op.theta);
      cosine.push_back(float(std::cos(angle)));
      sine.push_back(float(turn == Turn::forward ? std::sin(angle) : -std::sin(angle)));
    }
    for (int64_t h = 0; h < shape[1]; ++h) {
      float *const a = op.x.at(t, h), *const b = a + half;
      for (int64_t i = 0; i < half; ++i) {
        const float x = a[i], y = b[i], c = cosine[size_t(i)], s = sine[size_t(i)];
        a[i] = x * c - y * s;
        b[i] = y * c + x * s;
      }
    }
  });
}

}  // namespace

void rope(const Rope& op, const Cpu& cpu) { rotate(op, Turn::forward, cpu); }
void rope_backward(const Rope& op, const Cpu& cpu) { rotate(op, Turn::back, cpu); }

}  // namespace deltasane::kernel
