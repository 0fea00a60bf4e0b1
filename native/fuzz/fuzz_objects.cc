// Any bytes as the object graphs of a model and of its checkpoint: numbers are those of objects, and
// paths are no longer than allowed.
#include "core/objects.h"

namespace objects = ferry::objects;

namespace {

objects::Graph read(const ferry::Input& input, bool is_saved) {
  try {
    return is_saved ? objects::read_saved(input.span(), 100) : objects::read_tracked(input.span(), 100);
  } catch (const ferry::Error& error) {
    if (error.offset() > static_cast<std::size_t>(input.end - input.begin)) __builtin_trap();
    return {};
  }
}

}  // namespace

// The first byte says where the bytes of the model end, and those of the checkpoint start.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t first = data[0] < size ? data[0] : size - 1;
  const ferry::Input model(data + 1, first), checkpoint(data + 1 + first, size - 1 - first);
  const objects::Graph saved = read(model, true), tracked = read(checkpoint, false);
  for (const auto& twin : objects::match(saved, tracked)) {
    if (twin && *twin >= tracked.size()) __builtin_trap();
  }
  try {
    std::size_t length = 0;
    for (const auto& [object, path] : objects::find_paths(saved, 1000)) {
      if (object >= saved.size()) __builtin_trap();
      length += path.size();
      if (saved[object].kind == objects::variable_kind) objects::read_variable(saved[object].value);
    }
    if (length > 1000 + size) __builtin_trap();
  } catch (const ferry::Error&) {  // which has been looked at
  }
  return 0;
}
