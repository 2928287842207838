"""Stop words by language, under the names that the language detector uses.

The share of stop words in a paragraph distinguishes text from menus.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.extras import require

# jusText and the detector have different names for some languages.
_DETECTED_NAMES = {
    "Haitian": ("HAITIAN_CREOLE",),
    "Newar": ("NEWARI",),
    "Norwegian_Bokmal": ("NORWEGIAN",),
    "Norwegian_Nynorsk": ("NORWEGIAN_N",),
    "Serbo_Croatian": ("MONTENEGRIN", "SERBO_CROATIAN"),
    "Waray_Waray": ("WARAY_PHILIPPINES",),
    "West_Frisian": ("FRISIAN",),
}
# Languages written without spaces: words cannot be counted, so whole paragraphs are kept, and the lists below only say
# which languages are wanted. jusText has no lists for them.
UNSPACED = frozenset(("THAI", "CHINESE", "CHINESET", "JAPANESE", "KOREAN"))
_OWN = {
    "THAI": "ที่ และ ใน เป็น การ ของ มี ได้ ให้ ไม่ จะ ว่า กับ จาก โดย นี้ คือ แต่ หรือ ก็",
    "CHINESE": "的 了 和 是 在 不 有 我 他 这 那 也 就 都 而 与 及 或 但 对",
    "CHINESET": "的 了 和 是 在 不 有 我 他 這 那 也 就 都 而 與 及 或 但 對",
    "JAPANESE": "の に は を が と で も から まで より や し て た です ます する いる ある",
}
# Too many pages of lists and templates are detected as this language.
_UNWANTED = "Latin"


def get_stop_list_dict(languages: Sequence[str] | None = None) -> dict[str, frozenset[str]]:
    """Return stop words by language, for some languages or for all that have a list.

    >>> sorted(get_stop_list_dict(["English", "Japanese"]))
    ['ENGLISH', 'JAPANESE']
    """
    justext = require("justext", "extract", "The stop words of most languages")
    available: frozenset[str] = justext.get_stoplists()
    wanted = languages or [*(available - {_UNWANTED}), *_OWN]
    lists: dict[str, frozenset[str]] = {}
    for language in wanted:
        own = _OWN.get(language.upper())
        if own is None and language not in available:
            raise ValueError(
                f"there is no stop list for {language!r}; there is one for {', '.join(sorted(available))}."
            )
        words = frozenset(own.split()) if own is not None else justext.get_stoplist(language)
        for name in _DETECTED_NAMES.get(language, (language.upper(),)):
            lists[name] = words
    return dict(sorted(lists.items()))
