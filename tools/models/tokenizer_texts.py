# SPDX-License-Identifier: Apache-2.0
"""Texts on which tokenizers are compared: chosen ones, and random ones from a seed."""

import random
import unicodedata

_WORDS = [
    "Hello, world!", "don't DON'T it's we'll I'd y'all've they're WE'RE I'M", "The server reads the table.\n",
    "I'm sure you'll say we've done it, don't 'STOP", "ſ'ſ 'S 'ſt 'Ll", "naïve café résumé Ångström ÀÉÎÕÜ àéîõü",
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "snake_case CamelCase kebab-case SCREAMING_CASE",
    "a", "I", " a", "a ", "  two  spaces   three    four     five ", "The  quick\tbrown\nfox\r\njumps over the lazy dog.",
    "e.g. i.e. etc. U.S.A. Ph.D. 3rd 4th", "https://example.org/a/b?c=d&e=%20#f user@example.org", "“quoted” ‘text’ – dash —",
    "…dots… • → × ÷ ° £ € ¥ © ® ™", "ﬁne ligature and ½ stay as they are", "Straße Größe ẞ", "ÆØÅ æøå Łódź Čeština ğışĞİŞ",
    "Tiếng Việt có dấu", "Zażółć gęślą jaźń", "Ελληνικά κείμενο με τόνους", "Привет, мир! Как дела?", "Ђорђе љубав њихов",
    "שלום עולם", "שָׁלוֹם עִבְרִית", "ქართული ენა", "Հայերեն լեզու", "አማርኛ ቋንቋ", "ไทยภาษาไม่มีช่องว่าง", "ພາສາລາວ", "မြန်မာဘာသာ",
    "ភាសាខ្មែរ", "བོད་སྐད", "සිංහල භාෂාව", "தமிழ் மொழி", "తెలుగు భాష", "ಕನ್ನಡ ಭಾಷೆ", "മലയാളം", "ગુજરાતી ભાષા", "ਪੰਜਾਬੀ ਭਾਸ਼ਾ", "বাংলা ভাষা",
    "<|im_start|>user\nhi<|im_end|>\n<think>\n\n</think>", "<|im_start", "<|im_end|><|im_end|>\n", "x<think>y",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>", "<|endoftext|>", "a<|endoftext|>b <|im_end|> c",
    "<|im_star|> <|im_end| |im_end|> <|IM_END|> < |im_end|>", "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "<repo_name>a<file_sep>b",
]
_CJK = [
    "你好，世界。", "日本語のテキスト、中文混合。", "한국어 텍스트입니다.", "数字和文字。これはテストです。", "繁體中文與简体中文", "東京都渋谷区1-2-3",
    "「引用」『二重』【括弧】", "カタカナ・ひらがな・漢字", "ﾊﾝｶｸｶﾅ ｱｲｳ", "ＡＢＣ１２３（全角）", "㈱㍿℡①②③", "𠮷野家で𩸽を食べる", "々〆〇ヶ", "안녕하세요 세계",
    "가각갂갃간갅", "\u1100\u1161\u11a8 \uac01 \u1112\u1161\u11ab", "か\u3099き\u3099 ハ\u309a", "中文English混排text测试123次", "。。。、、、！！！？？？",
    "人之初性本善性相近習相遠苟不教性乃遷教之道貴以專昔孟母擇鄰處子不學斷機杼", "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
]
_ARABIC = [
    "مرحبا بالعالم", "اللغة العربية جميلة", "السَّلَامُ عَلَيْكُمْ", "١٢٣٤٥ ٦٧٨٩٠", "۱۲۳ فارسی پارسی می‌خواهم", "اردو زبان میں", "ﷺ ﷲ ﻻ", "العربية English مختلط 123",
    "كتاب\u0640\u0640\u0640\u0640", "\u202bمن اليمين\u202c إلى \u200fاليسار\u200e", "پښتو کوردی", "، ؛ ؟ ٪", "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ ٱلرَّحِيمِ",
]
_HINDI = [
    "नमस्ते दुनिया", "हिन्दी भाषा में लिखा हुआ पाठ।", "क्षत्रिय ज्ञान श्री", "क\u093c ख\u093c \u0958 \u0959", "१२३४५६७८९०", "संस्कृतम् ॐ नमः शिवाय॥", "मराठी नेपाली",
    "क्\u200dष क्\u200cष", "हिंदी English मिश्रित", "अंतर्राष्ट्रीयकरण", "ऽ ॰ ।", "कि की कु कू के कै को कौ कं कः",
]
_EMOJI = [
    "👍", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇪🇺🇩🇪🇯🇵", "1️⃣ 2️⃣ #️⃣", "👨🏿‍🚀👩🏻‍⚕️", "❤️ ♥ ❤", "🙂🙃😀😃😄", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "☀️☁️⛈️", "a👍b", "👍 👍", "👋 hello 👋🏾", "\u200d👩\u200d", "👩\u200d", "\ufe0f\ufe0f", "🫠🫡🥹", "♠♣♥♦", "🀄🂡🎲", "𝒳𝓎𝔷 𝟙𝟚𝟛", "𓀀𓁹", "\U0001f1e9", "🧑‍🤝‍🧑🧑🏽‍🤝‍🧑🏿",
]
_MARKS = [
    "cafe\u0301", "A\u030angstro\u0308m", "e\u0301\u0302", "e\u0302\u0301", "a\u0323\u0307", "a\u0307\u0323", "\u1e9b\u0323", "\u0344 \u0f73 \u212b", "\u0300\u0301 start",
    "Z\u0351\u036b\u0343\u036a\u0302a\u0303\u0364\u0348l\u035cg\u0321o\u034f", "\u212b \u2126 \u2000 \u2329", "q\u0307\u0323 q\u0323\u0307", "\u00a8\u0301 \u00b4", "i\u0307 I\u0307 \u0130 \u0131",
    "\u0958 \u0929 \u0931", "\ufb1d \ufb2a \ufb4e", "\u0340 \u0341 \u0343 \u0374 \u037e \u0387", "\u1100\u1161 \u1100\u1161\u11a7", "e\u0328\u0301 e\u0301\u0328", "\u05d0\u05b7\u05bc \u05d0\u05bc\u05b7",
    "o\u031b\u0323 o\u0323\u031b", "\u0d3e\u0d46 \u0d46\u0d3e", "\u0bc6\u0bbe \u0bc7\u0bbe", "\u0cc6\u0cc2\u0cd5", "\u0dd9\u0dca\u0dcf",
]
_CONTROLS = [
    "\x00", "\x00\x01\x02\x03\x05", "\x07\x08\x0b\x0c\x0e", "\x1b[31mred\x1b[0m", "\x7f\x80\x81\x9f", "\ufeffbom", "\u200b\u200c\u200d\u2060", "\u2028\u2029\u0085",
    "\u00a0no-break\u2003em\u3000wide", "\u180e a\u180eb \u180e", "\u061c\u200e\u200f\u202a\u202e", "\u00ad soft\u00adhyphen", "\ufff9\ufffa\ufffb \ufffc \ufffd", "\ue000\uf8ff",
    "\U000f0000", "\U0010ffff \uffff", "a\x00b\x00c", "\x15\x17\x18", "\r", "\r\r\n\n", "\n\r", "\x1c\x1e\x1f", "\u0000\u0001\u007f control", "\ufdd0\ufdef",
]
_DIGITS = [
    "0", "1", "12", "123", "1234", "12345", "123456", "1234567 89", "3.14159", "1,000,000", "-1 +2 -3.5e-10", "0x1F 0b101 1_000", "2026-11-21T08:30:00Z", "10:45 12/31", "٣٤٥", "४२", "Ⅷ ½ ¼ ²³",
    "①②③ ⑴ ㊿", "1st 2nd 3rd", "v1.2.3-rc.4", "127.0.0.1:8080", "+49 (0)30 1234567", "$1,234.56 €99 100%", "1 2 3 4 5 6 7 8 9 10", "007", "1e9", "a1b2c3", "1a 2b 3c", "१२३४ 1234 １２３４", "9" * 19,
    "𝟎𝟏𝟐", "x2 y3", " 1 12 123", "1\n2\n3", "12 345 678", "0.1+0.2=0.30000000000000004",
]
_CODE = [
    "def f(x):\n    return x + 1  # comment\n", "#include <stdio.h>\n\nint main(void) {\n\treturn 0;\n}\n", "for (int i = 0; i < n; ++i) { sum += a[i]; }", "fn main() {\n    println!(\"{}\", 1);\n}",
    "const f = async (x) => await g(`${x}`);", "SELECT * FROM t WHERE a >= 1 AND b <> 'x';", "<div class=\"a\"><p>Hi &amp; bye</p></div>", "{\"a\": [1, 2.5, null, true], \"b\": {\"c\": \"d\\n\"}}",
    "if __name__ == \"__main__\":\n    main()\n", "x = x if x is not None else []\n\n\n", "public static void main(String[] args) {", "std::vector<std::pair<int, std::string>> v{{1, \"a\"}};",
    "let rec fact n = if n <= 1 then 1 else n * fact (n - 1)", "#!/bin/sh\nset -eu\necho \"$@\" | sed 's/a/b/g' > /dev/null 2>&1", "\\begin{equation} \\frac{a}{b} \\sum_{i=0}^{n} x_i^2 \\end{equation}",
    "snake_case(x)[0]->y::z; // ok", "foo_bar(baz){ return x->y; } // ok\n\t#include <stdio.h>", "        deep indentation\n            deeper\n", "\t\t\ttabs\n\t\t\t\tmore", "a=b;c=d;e=f;", "!=== <=> ??= ||= &&= **= >>>=",
    "/* block\n * comment\n */", "@decorator\nclass A(B, metaclass=C):\n    x: int = 5\n", "console.log('%s', JSON.stringify({a:1}))", "--flag=value -x -- file.txt", "regex: ^[a-z]+(?:\\s*\\d{1,3})?$",
    "| a | b |\n|---|---|\n| 1 | 2 |\n", "# Title\n\n- item\n- item\n\n```py\nx\n```\n", "x86_64-linux-gnu", "a@b.c <a@b.c>", "C:\\Users\\x\\file.txt", "../../etc/passwd", "0xDEADBEEF", "i++ + ++i", "(((())))[[[]]]{{{}}}",
    "&nbsp;&#x27;&lt;", "%d %s %05.2f", "fn<'a, T: 'a + ?Sized>(x: &'a T)", "lambda x: (yield)", "\"\"\"doc\"\"\"", "''' '''", "`code` ``code``", "~~~ === --- *** ___",
]
_RUN_UNITS = ["a", "ab", " ", "\n", "\t", "!", "=", "-", "0", "12", ".", "é", "中", "👍", "\u0301", "a\u0301", "the", " the", "\r\n", " \n", "_", "A", "xyz", "ſ", "<|", "が", "م", "ก", "#", "'s"]
_RUN_LENGTHS = (2, 3, 4, 7, 15, 16, 17, 40, 130, 300)

# Bytes that are not UTF-8; each maximal ill-formed part counts as U+FFFD.
BROKEN = [
    b"\x80", b"\xff\xfe", b"a\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82a", b"\xe2\xe2\x82\xac", b"\xf0\x9f\x91", b"\xf0\x9f\x91 \xf0\x9f", b"\xc0\xaf", b"\xed\xa0\x80", b"\xed\xbf\xbf",
    b"\xf0\x80\x80A", b"\xf4\x90\x80\x80", b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA", b"abc\xe4\xbd", b"\xbd\xa0def", b"x\xfe\xffy", b"\xf8\x88\x80\x80\x80", b"\xe0\x80\xaf", b"ok \xf0\x9f\x98\x80 \xf0\x9f\x98",
    b"\xd8\x00\xdc\x00", b"\xef\xbf", b"\xef\xbb\xbf\xff", b"<|im_end|\xff>", b"\xff<|im_end|>", b"e\xcc", b"e\xcc\x81\xcc",
]


def replaced(broken):
    return broken.decode("utf-8", errors="replace")


def chosen():
    """More than 500 texts, each once."""
    texts = [""] + _WORDS + _CJK + _ARABIC + _HINDI + _EMOJI + _MARKS + _CONTROLS + _DIGITS + _CODE
    texts += [unit * length for unit in _RUN_UNITS for length in _RUN_LENGTHS if len(unit) * length <= 700]
    texts += [" " + text for text in _WORDS[:20] + _CJK[:5] + _DIGITS[:8]] + [text + "\n\n" for text in _CODE[:10]]
    rng = random.Random(3)
    pool = _WORDS + _CJK + _ARABIC + _HINDI + _EMOJI + _MARKS + _CONTROLS + _DIGITS + _CODE
    texts += ["".join(rng.sample(pool, 3)) for _ in range(60)]
    texts += [replaced(broken) for broken in BROKEN]
    return list(dict.fromkeys(texts))


# Combining marks that Unicode has gained since version 9. The Rust library normalises by the tables of that version and
# the JavaScript one by those of its engine, so they order these marks differently.
_NEWER_MARKS = [(0x7FD, 0x7FD), (0x898, 0x89F), (0x8CA, 0x8D3), (0x9FE, 0x9FE), (0xC3C, 0xC3C), (0xD3B, 0xD3C),
                (0xEBA, 0xEBA), (0xECE, 0xECE), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA)]
_BLOCKS = [(0x01, 0x20), (0x20, 0x7F), (0x80, 0x250), (0x250, 0x370), (0x370, 0x600), (0x600, 0x900), (0x900, 0xE80),
           (0xE80, 0x1200), (0x1E00, 0x2070), (0x2070, 0x2800), (0x3040, 0x3100), (0x4E00, 0x9FF0), (0xAC00, 0xD7A4),
           (0xF900, 0xFB50), (0xFB50, 0xFE00), (0xFE20, 0x10000), (0x1D400, 0x1D800), (0x1F300, 0x1F650), (0x20000, 0x20400)]


def _characters(begin, end):
    codes = (c for c in range(begin, end) if not any(first <= c <= last for first, last in _NEWER_MARKS))
    return [chr(c) for c in codes if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def random_texts(seed, count, special):
    """Mixtures of a few scripts each, with added tokens, contractions, white space and runs among them."""
    rng = random.Random(seed)
    pools = [_characters(*block) for block in _BLOCKS]
    pools += [list(" \n\t\r"), list("0123456789"), special, ["'s", "'t", "'RE", "'ll", "ſ"],
              ["the", "and", " counts", " token", "Straße", "\u200d", "\ufe0f", "def f(x):\n    "]]
    for _ in range(count):
        kinds = rng.sample(pools, rng.randint(1, 4))
        yield "".join(rng.choice(rng.choice(kinds)) * (rng.randint(2, 6) if rng.random() < 0.1 else 1)
                      for _ in range(rng.randint(1, 30)))
