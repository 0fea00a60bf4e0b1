// Any paths, shapes and texts: what is encoded is read again, and has the objects that were added.
#include <string>

#include "core/hdf5_encode.h"

namespace hdf5 = ferry::hdf5;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // float32, and a type that `read` does not know.
  static constexpr std::string_view number("\x11\x20\x1f\0\4\0\0\0\0\0\x20\0\x17\x08\0\x17\x7f\0\0\0", 20);
  static constexpr std::string_view opaque("\x15\0\0\0\2\0\0\0", 8);
  hdf5::Encoder encoder("v");
  std::vector<std::string> texts;  // hold what the encoder looks at
  texts.reserve(size);
  std::size_t datasets = 0;
  bool is_usual = true;
  for (std::size_t at = 0; at + 2 < size; ++datasets) {
    // What it is, the length of its path, and the path.
    const std::uint8_t kind = data[at], length = data[at + 1] % 24;
    at += 2;
    const std::size_t end = std::min(size, at + length);
    texts.emplace_back(reinterpret_cast<const char*>(data) + at, end - at);
    at = end;
    const std::string_view text = texts.back();
    if (!ferry::is_utf8({reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr})) {
      return 0;
    }
    if (kind % 4 == 0) {
      if (encoder.add_group(text, {{"name", text}}) != hdf5::Refusal::none) return 0;
      --datasets;
      continue;
    }
    const std::vector<std::uint64_t> dims(kind / 16, kind % 8 == 7 ? 0 : 1 + kind % 3);
    if (dims.size() > 8) return 0;
    is_usual = is_usual && kind % 4 == 1 && (dims.empty() || dims[0] != 0);
    const std::string_view type = kind % 4 == 1 ? number : opaque;
    if (encoder.add_dataset(text, type, dims, {}) != hdf5::Refusal::none) return 0;
  }
  const std::size_t front = encoder.measure();
  std::vector<std::uint8_t> file(front);
  encoder.write(file.data(), front);
  std::size_t values = 0;
  for (const auto& [address, bytes] : encoder.values()) {
    if (bytes == 0) continue;
    if (address < file.size() || address % 8 != 0) __builtin_trap();
    file.resize(static_cast<std::size_t>(address + bytes));
    ++values;
  }
  if (encoder.values().size() != datasets || values > datasets) __builtin_trap();
  hdf5::Objects found;
  const ferry::Input input(file.data(), file.size());
  const bool is_read = hdf5::read(input.span(), 100, found);
  if (is_read != is_usual) __builtin_trap();
  if (!is_read) return 0;
  for (const hdf5::Object& object : found.objects) datasets -= object.dtype != nullptr;
  if (datasets != 0) __builtin_trap();
  return 0;
}
