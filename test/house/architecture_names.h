// Architecture names: a model architecture is named in its own folder only.
//
// The architectures are the folders src/model/NAME that have a block.h or model.h. Outside of
// src/model/NAME/, src/model/architectures.cpp and src/model/CMakeLists.txt, no source or
// CMakeLists.txt of src/ contains NAME, in its path or its text (code, comments and literals).
// Tests and fixtures are exempt.
//
// A name matches in any case and with or without '-' and '_': rwkv7, RWKV-7, Rwkv7Shape.
#pragma once

#include <set>
#include <string>

#include "house/finding.h"
#include "house/tree.h"

namespace deltasane::house {

std::set<std::string> architecture_names(const std::vector<Source>& sources);

bool contains_architecture_name(std::string_view text, std::string_view name);

// One finding per file.
Findings check_architecture_names(const std::vector<Source>& sources);

}  // namespace deltasane::house
