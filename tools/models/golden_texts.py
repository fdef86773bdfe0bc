# SPDX-License-Identifier: Apache-2.0
"""What the goldens are made of: questions, texts that are hard to tokenize, and conversations."""

import random

from .tiny_tasks import ANSWERS, count_answer

COUNT = ("count from 3 to 40", count_answer(3, 40))
SUM = ("what is 17 + 25?", "42")
HELLO = ("hello", ANSWERS["hello"])

_FIXED = [
    "",
    " ",
    "Hello, world!",
    "count from 3 to 40",
    "Count from 998 to 999.",
    "what is 17 + 25?",
    "I'm sure you'll say we've done it, don't 'STOP",
    "  two  spaces   three    four     five ",
    "line\nbreak\r\nand\n\n\n\nmore\n \n  end",
    "tabs\t\tand\t \tspaces",
    "1234567890 3.14159 1,000,000 ٣٤ ४२ ①②",
    "naïve café résumé Ångström ÀÉÎÕÜ àéîõü",
    "cafe\u0301 and A\u030angstro\u0308m come together under NFC",
    "\u1100\u1161\u11a8 \uac01 Hangul composes too",
    "ﬁne ligature and ½ stay as they are",
    "quotes “double” ‘single’ – dash — dash … dots • → × ÷ ° £ €",
    "你好，世界。日本語テキスト 한국어 텍스트",
    "مرحبا بالعالم שלום עולם नमस्ते",
    "👋 🙂 👩‍👩‍👧‍👦 🇪🇺 1️⃣ e\u0301\u0302",
    "\u00a0no-break\u2003em\u3000wide\u180emongol\u200bzero",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_end|><|endoftext|>",
    "a<|endoftext|>b <|im_end|> c<|im_end|>d",
    "<|im_star|> <|im_end| |im_end|> <|IM_END|>",
    "snake_case CamelCase kebab-case x+=1; if(a&&b){return !c;} // done",
    "https://example.org/a/b?c=d&e=%20#f user@example.org",
    "\u0000\u0001\u007f control",
    "a" * 300,
    " " * 70 + "x",
    "!?" * 60,
    "0" * 50,
]

CHATS = [
    [{"role": "user", "content": "count from 3 to 40"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
    [
        {"role": "user", "content": "what is 17 + 25?"},
        {"role": "assistant", "content": "42"},
        {"role": "user", "content": "reverse the word “naïve”"},
    ],
    [{"role": "user", "content": " two spaces \n\nand lines\n"}],
]


def texts():
    """The fixed texts and a seeded mixture of everything that is in them."""
    rng = random.Random(11)
    pool = sorted(set("".join(_FIXED))) + ["<|im_end|>", "'s", "'Re", "\r\n", "   ", "Hello", " w"]
    mixed = ["".join(rng.choice(pool) for _ in range(rng.randint(1, 24))) for _ in range(60)]
    return _FIXED + mixed
