// JSON text, read strictly and in order: what the headers of formats are made of.
//
// The reader knows strings, numbers of 0 or more, tensors of numbers (`json_numbers.cc`), and single
// characters; which of them may stand where is for the parser of each header. So a header cannot nest
// deeper than its parser goes. The text is UTF-8: no byte order mark, no control characters in strings,
// no halves of characters.
#pragma once

#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "wire.h"

namespace ferry::json {

// A tensor of numbers, in C order.
struct Numbers {
  std::vector<std::int64_t> integers;  // as long as all of them are
  std::vector<double> floats;
  double largest = 0;  // of the floats, without their signs, that are finite
  bool are_integers = true;
  std::vector<std::uint64_t> shape;

  void add(double number);
  void add(std::int64_t number) {
    if (are_integers) {
      integers.push_back(number);
    } else {
      keep(static_cast<double>(number));
    }
  }

 private:
  void keep(double number);
};

class Reader {
 public:
  // Errors count offsets from the start of `text`, and add `before`.
  explicit Reader(Span text, std::uint64_t before = 0) noexcept
      : begin_(text.data), at_(text.data), end_(text.data + text.size), before_(before) {}

  // The next character that is no space, which stays; 0 at the end.
  char next() noexcept;

  // Takes a character if it is the next one.
  bool take(char expected) noexcept;

  // Takes a character, or fails.
  void expect(char expected);

  // Takes a string, or fails. It is valid as long as the reader and its text.
  std::string_view string();

  // Takes a number of 0 or more, written with digits alone; false if none stands here, or one that
  // is larger than 64 bits.
  bool natural(std::uint64_t& number) noexcept;

  // Takes lists in lists of numbers, all of one shape, which may be the words NaN and Infinity;
  // false if something else stands there, or a number that is no int64 and no double.
  bool numbers(Numbers& found);

  // Fails unless nothing but space is left.
  void finish();

  std::uint64_t offset() const noexcept {
    return before_ + static_cast<std::uint64_t>(at_ - begin_);
  }

 private:
  bool number(Numbers& found);
  bool word(std::string_view expected) noexcept;
  std::string_view escaped(const std::uint8_t* start);
  std::uint32_t hexadecimal();
  [[noreturn]] void fail(const std::string& message) const;

  const std::uint8_t* begin_;
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  std::uint64_t before_;
  std::deque<std::string> made_;  // strings that are not written as they read
};

// Whether bytes are UTF-8: no halves of surrogate pairs, nothing longer than it must be.
bool is_utf8(std::string_view text) noexcept;

}  // namespace ferry::json
