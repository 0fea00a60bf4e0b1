// Numbers and texts as JSON has them, in the words of Python's own json module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ferry::json_text {

void append(std::string& out, std::int64_t number);
void append(std::string& out, std::uint64_t number);

inline constexpr std::size_t most_characters = 40;  // of a number

// Writes a number at a place that has room for it, and gives the place behind it. What JSON lacks is
// a bare word: NaN, Infinity, -Infinity.
char* put(char* to, float number) noexcept;
char* put(char* to, double number) noexcept;

// With as many digits as tell it from its neighbours of the same type, laid out as Python's repr.
// What JSON lacks is a text: "NaN", "Infinity", "-Infinity".
void append(std::string& out, float number);
void append(std::string& out, double number);

// A text in quotes, unless it has a character beyond ASCII: then nothing is appended.
bool append_ascii(std::string& out, std::string_view text);

}  // namespace ferry::json_text
