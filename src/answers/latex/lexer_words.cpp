// Every fixed word of the grammar. Longer words win over shorter ones, so the order is free.
#include <unordered_map>

#include "answers/latex/token.h"

namespace deltasane::answers {

namespace {

struct Words {
  Token token;
  std::string_view words;  // separated by blanks
};

constexpr Words words_of_tokens[] = {
    {Token::skip,
     "\\, \\thinspace \\: \\medspace \\; \\thickspace \\quad \\qquad \\! \\negthinspace "
     "\\negmedspace \\negthickspace \\$ \\vrule \\vcenter \\vbox \\vskip \\vspace \\hfil"},
    {Token::plus, "+ ∔ ⊕ ⊞"},
    {Token::minus, "- − ∸"},
    {Token::times, "* × ⋅ ⋄ ⊡ ∗ ⋆ ∘ ∙ ⊗ ⊠ ⋈ ⋉ ⋊ \\times \\cdot"},
    {Token::over, "/ ÷ ∕ \\over \\div"},
    {Token::modulo, "\\mod"},
    {Token::colon, ":"},
    {Token::left_paren, "("},
    {Token::right_paren, ")"},
    {Token::left_paren_visual, "\\("},
    {Token::right_paren_visual, "\\)"},
    {Token::left_group, "\\lgroup"},
    {Token::right_group, "\\rgroup"},
    {Token::left_brace, "{"},
    {Token::right_brace, "}"},
    {Token::left_brace_visual, "\\{"},
    {Token::right_brace_visual, "\\}"},
    {Token::left_brace_word, "\\lbrace"},
    {Token::right_brace_word, "\\rbrace"},
    {Token::left_bracket, "["},
    {Token::right_bracket, "]"},
    {Token::left_bracket_word, "\\lbrack"},
    {Token::right_bracket_word, "\\rbrack"},
    {Token::bar, "|"},
    {Token::left_vert, "\\lvert"},
    {Token::right_vert, "\\rvert"},
    {Token::vert, "\\vert"},
    {Token::norm, "\\|"},
    {Token::left_angle, "\\langle"},
    {Token::right_angle, "\\rangle"},
    {Token::left_floor, "\\lfloor"},
    {Token::right_floor, "\\rfloor"},
    {Token::left_corner, "\\llcorner"},
    {Token::right_corner, "\\lrcorner"},
    {Token::left_ceil, "\\lceil"},
    {Token::right_ceil, "\\rceil"},
    {Token::upper_left_corner, "\\ulcorner"},
    {Token::upper_right_corner, "\\urcorner"},
    {Token::phantom, "\\phantom"},
    {Token::boxed, "\\boxed"},
    {Token::limit, "\\lim"},
    {Token::approaches, "\\to \\rightarrow \\Rightarrow \\longrightarrow \\Longrightarrow"},
    {Token::integral, "\\int"},
    {Token::sum, "\\sum"},
    {Token::product, "\\prod"},
    {Token::square_root, "\\sqrt"},
    {Token::function,
     "\\log \\ln \\exp \\sin \\cos \\tan \\csc \\sec \\cot \\arcsin \\arccos \\arctan \\arccsc "
     "\\arcsec \\arccot \\sinh \\cosh \\tanh \\arsinh \\arcosh \\artanh \\arcsinh \\arccosh "
     "\\arctanh \\floor \\ceil \\det"},
    {Token::function_of_many, "\\gcd \\lcm \\max \\min"},
    {Token::operator_name, "\\operatorname"},
    {Token::name_of_function,
     "arsinh arcsinh arcosh arccosh artanh arctanh floor ceil eye rank trace tr rref nullspace eig "
     "eigen diagonalize norm eigenvals eigenvalues eigenvects eigenvectors svd SVD cols rows"},
    {Token::name_of_function_of_many,
     "gcd lcm zeros orth ortho orthogonal orthogonalize ones diag hstack vstack"},
    {Token::fraction, "\\frac \\dfrac \\tfrac \\cfrac"},
    {Token::binomial, "\\binom \\tbinom \\dbinom"},
    {Token::choose, "\\choose"},
    {Token::matrix_begin, "\\begin{matrix} \\begin{pmatrix} \\begin{bmatrix}"},
    {Token::matrix_end, "\\end{matrix} \\end{pmatrix} \\end{bmatrix}"},
    {Token::array_end, "\\end{array}"},
    {Token::determinant_begin, "\\begin{vmatrix}"},
    {Token::determinant_end, "\\end{vmatrix}"},
    {Token::column, "&"},
    {Token::row, "\\\\"},
    {Token::underscore, "_"},
    {Token::caret, "^"},
    {Token::semicolon, ";"},
    {Token::comma, ","},
    {Token::period, "."},
    {Token::bang, "!"},
    {Token::transpose, "^T ^{T} ^{\\\\top} '"},
    {Token::degree, "^\\circ ^\\degree ^\\circle ^° ^{\\circ} ^{\\degree} ^{\\circle} ^{°}"},
    {Token::euler, "e \\exponentialE"},
    {Token::big_e, "E"},
    {Token::greek,
     "\\alpha α \\beta β \\gamma γ \\Gamma Γ \\delta δ \\Delta Δ \\epsilon ε \\varepsilon ϵ \\zeta "
     "ζ \\eta η \\theta θ \\Theta Θ \\vartheta ϑ \\iota ι \\kappa κ \\lambda λ \\Lambda Λ \\mu μ "
     "\\nu ν \\xi ξ \\Xi Ξ \\omicron ο \\pi π \\Pi Π \\varpi ϖ \\rho ρ \\varrho ϱ \\sigma σ "
     "\\Sigma "
     "Σ \\varsigma ς \\tau τ \\upsilon υ \\Upsilon Υ \\phi φ \\Phi Φ \\varphi ϕ \\chi χ \\psi ψ "
     "\\Psi Ψ \\omega ω \\Omega Ω"},
    {Token::other_symbol,
     "\\Bbbk \\wp \\nabla \\bigstar \\angle \\nexists \\diagdown \\measuredangle \\eth ℵ ℶ ℷ ℸ "
     "\\diagup \\sphericalangle \\clubsuit \\varnothing \\Diamond \\complement \\diamondsuit "
     "\\imath "
     "\\Finv \\triangledown \\heartsuit \\jmath \\Game \\triangle \\spadesuit \\ell \\hbar "
     "\\vartriangle \\hslash \\blacklozenge \\lozenge \\blacksquare \\mho \\blacktriangle \\sharp "
     "\\prime \\Im \\flat \\square \\backprime \\Re \\natural \\surd \\circledS"},
    {Token::infinity, "\\infty \\infty\\%"},
    {Token::partial, "\\partial"},
    {Token::element_of, "\\in"},
    {Token::not_element_of, "\\notin ∉"},
    {Token::equals, "= ≡ ≣ ≟ ≎ ≏ ≐ ≑ ≒ ≓ ≔ ≕ ≖ ≗"},
    {Token::identical_to, "== \\equiv"},
    {Token::approximately, "~= ≈ ≊ ≋ ≃ ≅ \\approx"},
    {Token::less, "< ≪ ≺ ⋖ \\lt"},
    {Token::less_equal, "\\leq \\le \\leqslant ≤ ≦ ≲ ≾ <="},
    {Token::greater, "> ≫ ≻ ⋗ \\gt"},
    {Token::greater_equal, "\\geq \\ge \\geqslant ≥ ≧ ≳ ≿ >="},
    {Token::unequal, "!= !== \\ne \\neq \\not\\equiv ≠ ≁ ≄ ≇ ≉ ≢"},
    {Token::naturals, "\\mathbb{N} ℕ"},
    {Token::integers, "\\mathbb{Z} ℤ"},
    {Token::rationals, "\\mathbb{Q} ℚ"},
    {Token::reals, "\\mathbb{R} ℝ"},
    {Token::complexes, "\\mathbb{C} ℂ"},
    {Token::primes, "\\mathbb{P} ℙ"},
    {Token::empty_set, "\\emptyset ∅ \\{\\} \\lbrace\\rbrace"},
    {Token::cup, "\\cup ∪"},
    {Token::cap, "\\cap ∩"},
    {Token::set_minus, "\\setminus ∖"},
    {Token::plus_minus, "\\pm ± ∓ \\mp"},
    {Token::superset, "\\supseteq ⊇"},
    {Token::subset, "\\subseteq ⊆"},
    {Token::other,
     "\\mathit matrix pmatrix bmatrix vmatrix \\xrightarrow \\xRightarrow <-> <=> \\leftrightarrow "
     "\\Leftrightarrow"},
};

std::unordered_map<std::string_view, Token> read_table() {
  std::unordered_map<std::string_view, Token> words;
  for (const Words& row : words_of_tokens)
    for (size_t at = 0; at < row.words.size();) {
      const size_t end = std::min(row.words.find(' ', at), row.words.size());
      words.emplace(row.words.substr(at, end - at), row.token);
      at = end + 1;
    }
  return words;
}

}  // namespace

Token fixed_word(std::string_view word) {
  static const std::unordered_map<std::string_view, Token> words = read_table();
  const auto found = words.find(word);
  return found == words.end() ? Token::end : found->second;
}

}  // namespace deltasane::answers
