// Elementary functions of complex numbers, on their principal branches. Unknown where the value is
// undefined or an argument is so large that the evaluation would be slow.
#pragma once

#include <span>
#include <string_view>

#include "answers/algebra/real.h"

namespace deltasane::answers {

Complex exponential(const Complex& z);
Complex logarithm(const Complex& z);
Complex power(const Complex& base, const Complex& exponent);

// A function of the grammar by its name.
Complex apply_function(std::string_view name, std::span<const Complex> arguments);

}  // namespace deltasane::answers
