"""Running text has a language, and lists have none."""

from __future__ import annotations

import pytest

from crawler.web.extract.language import language_of

NAMES = (
    "Anna Schmidt, John Miller, Peter Novak, Maria Garcia, Li Wei, Hans Meier, Jean Dupont, Paolo Rossi, Ivan Petrow"
)
SURNAMES = "Smith\nJohnson\nWilliams\nBrown\nJones\nGarcia\nMiller\nDavis\nRodriguez\nMartinez\nHernandez\nWilson"
HASHES = " ".join(f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in range(1, 13))
GERMAN = (
    "Die Donaudampfschifffahrtsgesellschaft hat am Montag in Wien den Vertrag mit der Stadt Linz und dem Land "
    "Niederösterreich unterzeichnet, teilte ihr Sprecher Hans Meier mit."
)
BURMESE = "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ တူညီလွတ်လပ်သော အခွင့်အရေးများဖြင့် လည်းကောင်း၊ မွေးဖွားလာသူများ ဖြစ်သည်။"


@pytest.mark.parametrize(
    ("text", "language"), [(NAMES, None), (SURNAMES, None), (HASHES, None), (GERMAN, "de"), (BURMESE, "my")]
)
def test_the_language_of_a_text(text: str, language: str | None) -> None:
    assert language_of(text) == language
