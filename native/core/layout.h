// The layout of a record: where its values lie, when all else is as in a record before.
//
// Writers put features in one order, and records of fixed shapes differ in their values alone:
// names, tags and lengths are the same bytes in the same places. One comparison of the whole record
// then takes the place of reading it field by field.
//
//     floats, strings    any bytes may stand where their values are
//     integers           where their seven bits are; the highest bit of a byte says where one ends
#pragma once

#include <vector>

#include "wire.h"

namespace ferry::example {

enum class Kind : std::uint8_t;

class Layout {
 public:
  // The one list of a feature in the record.
  struct Slot {
    Span name;
    Kind kind{};
    std::size_t start = 0;  // of its values, in the record
    std::size_t size = 0;
    std::size_t count = 0;    // of its values
    std::size_t lengths = 0;  // of integers: where the sizes of its varints are, in `lengths`
  };

  // Takes on the layout of a record. False if the record is not as writers make them: then there is
  // no layout, and `fits` never says yes. Names are valid as long as the record is.
  bool learn(const Span& record);

  // Whether a record is the one that was learned, except for its values.
  bool fits(const Span& record) const noexcept;

  void forget() noexcept { size_ = 0; }
  std::size_t size() const noexcept { return size_; }
  const std::vector<Slot>& slots() const noexcept { return slots_; }
  const std::vector<std::uint8_t>& lengths() const noexcept { return lengths_; }

 private:
  bool learn_entry(Span entry, const std::uint8_t* record);
  bool learn_integers(Slot& slot, Span run, const std::uint8_t* record);
  void allow(std::size_t start, std::size_t size, std::uint8_t bits) noexcept;

  std::size_t size_ = 0;                // of the record; 0: no layout
  std::vector<std::uint64_t> fixed_;    // its bytes, zeros where values are
  std::vector<std::uint64_t> compared_; // ones where a record has to be the same
  std::vector<Slot> slots_;
  std::vector<std::uint8_t> lengths_;
};

}  // namespace ferry::example
