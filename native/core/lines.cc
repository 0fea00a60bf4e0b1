#include "lines.h"

#include <bit>
#include <cstring>
#include <utility>

#include "places.h"

namespace ferry::lines {

namespace {

bool is_space(std::uint8_t byte) noexcept { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

class Cutter {
 public:
  Cutter(Span text, std::uint64_t start, std::uint64_t size, std::uint64_t most)
      : text_(text), size_(size), most_(most), line_(start), block_{start, start, 0} {}

  // Takes the line that ends before a place; false if it is too long.
  bool line(std::uint64_t end) {
    if (end - line_ > most_) return false;
    const std::uint64_t stop = end < text_.size ? end + 1 : text_.size;
    if (block_.stop > block_.start && stop - block_.start > size_) finish();
    block_.rows += is_blank(end) ? 0 : 1;
    block_.stop = line_ = stop;
    return true;
  }

  void finish() {
    if (block_.rows > 0) cut.blocks.push_back(block_);
    block_ = {block_.stop, block_.stop, 0};
  }

  std::uint64_t next() const noexcept { return line_; }

  Cut cut;

 private:
  bool is_blank(std::uint64_t end) const noexcept {
    for (std::uint64_t i = line_; i < end; ++i) {
      if (!is_space(text_.data[i])) return false;
    }
    return true;
  }

  Span text_;
  std::uint64_t size_;
  std::uint64_t most_;
  std::uint64_t line_;  // where the line starts that is looked at
  Block block_;
};

}  // namespace

Cut cut(Span text, std::uint64_t start, std::uint64_t size, std::uint64_t most, bool quotes) {
  Cutter cutter(text, start, size, most);
  std::uint64_t open = 0;  // all bits, if a quote is open
  for (std::uint64_t place = start; place < text.size; place += places::width) {
    const std::uint8_t* bytes = text.data + place;
    std::uint8_t last[places::width] = {};
    if (text.size - place < places::width) {
      std::memcpy(last, bytes, text.size - place);
      bytes = last;
    }
    std::uint64_t ends = places::of(bytes, '\n');
    if (quotes) {
      const std::uint64_t inside = places::parities(places::of(bytes, '"')) ^ open;
      ends &= ~inside;
      open = (inside >> 63) != 0 ? ~std::uint64_t{0} : 0;
    }
    for (; ends != 0; ends &= ends - 1) {
      if (!cutter.line(place + static_cast<std::uint64_t>(std::countr_zero(ends)))) {
        cutter.cut.is_too_long = true;
        cutter.finish();
        return std::move(cutter.cut);
      }
    }
  }
  if (cutter.next() < text.size && !cutter.line(text.size)) cutter.cut.is_too_long = true;
  cutter.cut.ends_in_quotes = open != 0;
  cutter.finish();
  return std::move(cutter.cut);
}

}  // namespace ferry::lines
