// Formats drawn numbers as a question and its worked answer, in one language and style.
#pragma once

#include "base/random.h"
#include "corpus/math/draw.h"
#include "corpus/math/working.h"

namespace deltasane::corpus {

// `language` is one language and `style` is not graded. The wording is drawn.
Problem write_problem(const Drawn& drawn, Language language, MathStyle style, Random& random);

// The steps of one sum, difference, product or quotient, by decimal places in the detailed
// style. b divides a without a remainder.
void work_addition(Working& working, int64_t a, int64_t b);
void work_subtraction(Working& working, int64_t a, int64_t b);
void work_multiplication(Working& working, int64_t a, int64_t b);
void work_division(Working& working, int64_t a, int64_t b);

}  // namespace deltasane::corpus
