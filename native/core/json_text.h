// Numbers and texts as JSON has them, in the words of Python's own json module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry::json_text {

void append(std::string& out, std::int64_t number);
void append(std::string& out, std::uint64_t number);

// With as many digits as tell it from its neighbours of the same type, laid out as Python's repr.
// What JSON lacks is a text: "NaN", "Infinity", "-Infinity".
void append(std::string& out, float number);
void append(std::string& out, double number);

// A text in quotes, unless it has a character beyond ASCII: then nothing is appended.
bool append_ascii(std::string& out, std::string_view text);

}  // namespace ferry::json_text
