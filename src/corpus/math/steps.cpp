#include <vector>

#include "corpus/math/write.h"

namespace deltasane::corpus {
namespace {

// 4087 is 4000, 80 and 7.
std::vector<int64_t> decimal_places(int64_t number) {
  std::vector<int64_t> places;
  int64_t unit = 1;
  while (number / unit >= 10) unit *= 10;
  for (; unit > 0; unit /= 10)
    if (const int64_t place = number / unit % 10 * unit; place != 0) places.push_back(place);
  return places;
}

}  // namespace

void work_addition(Working& working, int64_t a, int64_t b) {
  if (working.brief()) return;
  if (working.detailed() && b >= 10) {
    int64_t sum = a;
    for (const int64_t place : decimal_places(b)) {
      working.step(sum, " + ", place, " = ", sum + place);
      sum += place;
    }
  }
  working.step(a, " + ", b, " = ", a + b);
}

void work_subtraction(Working& working, int64_t a, int64_t b) {
  if (working.brief()) return;
  if (working.detailed() && a < b) {
    work_subtraction(working, b, a);
    working.step(a, " - ", b, " = -(", b, " - ", a, ") = ", a - b);
    return;
  }
  if (working.detailed() && b >= 10) {
    int64_t rest = a;
    for (const int64_t place : decimal_places(b)) {
      working.step(rest, " - ", place, " = ", rest - place);
      rest -= place;
    }
  }
  working.step(a, " - ", b, " = ", a - b);
}

void work_multiplication(Working& working, int64_t a, int64_t b) {
  if (working.brief()) return;
  const bool split_b = b >= 10;
  const auto places = decimal_places(split_b ? b : a);
  if (working.detailed() && places.size() > 1) {
    int64_t sum = 0;
    for (const int64_t place : places) {
      const int64_t part = split_b ? a * place : place * b;
      if (split_b)
        working.step(a, " * ", place, " = ", part);
      else
        working.step(place, " * ", b, " = ", part);
      if (sum != 0) working.step(sum, " + ", part, " = ", sum + part);
      sum += part;
    }
  }
  working.step(a, " * ", b, " = ", a * b);
}

void work_division(Working& working, int64_t a, int64_t b) {
  if (working.brief()) return;
  const auto places = decimal_places(a / b);
  if (working.detailed() && places.size() > 1) {
    int64_t rest = a, quotient = 0;
    for (const int64_t place : places) {
      working.step(b, " * ", place, " = ", b * place);
      working.step(rest, " - ", b * place, " = ", rest - b * place);
      if (quotient != 0) working.step(quotient, " + ", place, " = ", quotient + place);
      rest -= b * place;
      quotient += place;
    }
  }
  working.step(a, " / ", b, " = ", a / b);
}

}  // namespace deltasane::corpus
