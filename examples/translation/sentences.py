"""The data: English numbers and their German translations, which swap ones and tens.

"three hundred forty two" is "drei hundert zwei und vierzig".
"""

from __future__ import annotations

import random


def _words(text: str) -> list[str]:
    return text.split()


ONES = _words("one two three four five six seven eight nine")
TEENS = _words("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")

EINER = _words("ein zwei drei vier fünf sechs sieben acht neun")
ZEHNER = _words("zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn")
ZIGER = _words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")


def english(number: int) -> str:
    """The words for a number from 1 to 9999."""
    words = []
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            words += [ONES[number // size - 1], name]
            number %= size
    if number >= 20:
        words.append(TENS[number // 10 - 2])
        number %= 10
    if number >= 10:
        words.append(TEENS[number - 10])
    elif number:
        words.append(ONES[number - 1])
    return " ".join(words)


def german(number: int) -> str:
    """The same in German, with blanks between the parts of the one long word."""
    words = []
    for size, name in ((1000, "tausend"), (100, "hundert")):
        if number >= size:
            words += [EINER[number // size - 1], name]
            number %= size
    if number >= 20:
        if number % 10:
            words += [EINER[number % 10 - 1], "und"]
        words.append(ZIGER[number // 10 - 2])
    elif number >= 10:
        words.append(ZEHNER[number - 10])
    elif number:
        words.append("eins" if number == 1 else EINER[number - 1])
    return " ".join(words)


def pairs() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs of sentences for training, and other pairs for translating."""
    numbers = list(range(1, 10_000))
    random.Random(7).shuffle(numbers)
    every = [(english(number), german(number)) for number in numbers]
    return every[:4000], every[4000:4064]
