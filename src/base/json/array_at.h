// The array of a JSON object at a key, made where there is none.
//
// `object[key].push_back(value)` would make it, too. But where there is no memory for it, the JSON
// library leaves a value that says it is an array and is none, whose destructor ends the process.
#pragma once

namespace deltasane {

template <class Json>
Json& array_at(Json& object, const char* key) {
  if (!object.contains(key)) object[key] = Json::array();
  return object[key];
}

}  // namespace deltasane
