#include "layout.h"

#include "example.h"

namespace ferry::example {

namespace {

constexpr std::size_t word = sizeof(std::uint64_t);
// Beyond that a layout takes more memory than it saves time: values are most of such records.
constexpr std::size_t longest = 1 << 16;

std::uint64_t load(const std::uint8_t* data, std::size_t size = word) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, data, size);
  return value;
}

}  // namespace

bool Layout::learn(const Span& record) {
  size_ = 0;
  if (record.size == 0 || record.size > longest) return false;
  const std::size_t words = (record.size + word - 1) / word;
  fixed_.assign(words, 0);
  compared_.assign(words, ~std::uint64_t{0});
  std::memcpy(fixed_.data(), record.data, record.size);
  slots_.clear();
  lengths_.clear();
  try {
    Reader reader(record);
    Span features, entry;
    if (!reader.take_field(0x0a, features) || !reader.done()) return false;
    Reader entries(features);
    while (!entries.done()) {
      if (!entries.take_field(0x0a, entry) || !learn_entry(entry, record.data)) return false;
    }
  } catch (const Error&) {
    return false;
  }
  for (std::size_t i = 0; i < words; ++i) fixed_[i] &= compared_[i];
  size_ = record.size;
  return true;
}

bool Layout::learn_entry(Span entry, const std::uint8_t* record) {
  Slot slot;
  Span value, list, run;
  Reader reader(entry);
  if (!reader.take_field(0x0a, slot.name) || !reader.take_field(0x12, value) || !reader.done()) {
    return false;
  }
  Reader kinds(value);
  for (const Kind kind : {Kind::bytes, Kind::floats, Kind::integers}) {
    if (slot.kind == Kind::none &&
        kinds.take_field(static_cast<std::uint8_t>(static_cast<int>(kind) << 3 | 2), list)) {
      slot.kind = kind;
    }
  }
  if (slot.kind == Kind::none || !kinds.done()) return false;
  Reader values(list);
  if (!values.take_field(0x0a, run) || !values.done()) return false;
  slot.start = static_cast<std::size_t>(run.data - record);
  slot.size = run.size;
  switch (slot.kind) {
    case Kind::floats:
      if (run.size % sizeof(float) != 0) return false;
      slot.count = run.size / sizeof(float);
      allow(slot.start, slot.size, 0xff);
      break;
    case Kind::integers:
      if (!learn_integers(slot, run, record)) return false;
      break;
    default:
      slot.count = 1;
      allow(slot.start, slot.size, 0xff);
  }
  slots_.push_back(slot);
  return true;
}

bool Layout::learn_integers(Slot& slot, Span run, const std::uint8_t* record) {
  slot.lengths = lengths_.size();
  std::uint8_t length = 0;
  for (std::size_t i = 0; i < run.size; ++i) {
    ++length;
    if (length > word) return false;  // negative numbers, which join_groups does not read
    if (run.data[i] >= 0x80) continue;
    lengths_.push_back(length);
    length = 0;
    ++slot.count;
  }
  if (length != 0) return false;
  allow(static_cast<std::size_t>(run.data - record), run.size, 0x7f);
  return true;
}

void Layout::allow(std::size_t start, std::size_t size, std::uint8_t bits) noexcept {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(compared_.data());
  for (std::size_t i = start; i < start + size; ++i) bytes[i] &= static_cast<std::uint8_t>(~bits);
}

bool Layout::fits(const Span& record) const noexcept {
  if (size_ == 0 || record.size != size_) return false;
  const std::size_t whole = size_ / word;
  constexpr std::size_t block = 16;  // words, so that a difference is found early
  std::size_t i = 0;
  for (; i + block <= whole; i += block) {
    std::uint64_t different = 0;
    for (std::size_t k = 0; k < block; ++k) {
      different |= (load(record.data + (i + k) * word) & compared_[i + k]) ^ fixed_[i + k];
    }
    if (different != 0) return false;
  }
  std::uint64_t different = 0;
  for (; i < whole; ++i) different |= (load(record.data + i * word) & compared_[i]) ^ fixed_[i];
  const std::size_t rest = size_ % word;
  if (rest != 0) different |= (load(record.data + whole * word, rest) & compared_[whole]) ^ fixed_[whole];
  return different == 0;
}

}  // namespace ferry::example
